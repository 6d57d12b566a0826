"""Boxes (M, 5) that move with their image: class, y1, x1, y2, x2 as fractions of height and width.

A row without a box has the class −1 and zeros. A movement of the points of an image is an array
(2, 3): (y, x) becomes movement @ (y, x, 1), in fractions of the image.
"""

import numpy as np

from odt.kernels.rows.opdef import Array

VISIBLE = 0.3  # smallest part of a box's area that must stay in the image
NO_BOX = (-1, 0, 0, 0, 0)


def axis_movement(rows: tuple[float, float], columns: tuple[float, float]) -> Array:
    """Returns a movement along the axes.

    Args:
        rows, columns: factor and offset: y becomes factor · y + offset. A negative factor mirrors.
    """
    return np.array([[rows[0], 0, rows[1]], [0, columns[0], columns[1]]], np.float64)


def move_boxes(boxes: Array, movement: Array) -> None:
    """Moves boxes in place: each becomes the smallest box around its four corners.

    Boxes are clipped to the image. Those of which less than VISIBLE of their area stays in it
    become rows without a box.

    Args:
        boxes: (M, 5).
        movement: (2, 3).
    """
    corners = boxes[:, [[1, 2], [1, 4], [3, 2], [3, 4]]].astype(np.float64)  # (M, 4, 2)
    moved = corners @ movement[:, :2].T + movement[:, 2]
    ends = np.concatenate([moved.min(axis=1), moved.max(axis=1)], axis=1)
    inside = np.clip(ends, 0, 1).astype(boxes.dtype)  # a box may lose its area by rounding
    visible = _areas(inside)
    stays = (boxes[:, 0] >= 0) & (visible > 0) & (visible >= VISIBLE * _areas(ends))
    boxes[:, 1:] = inside
    boxes[~stays] = NO_BOX


def _areas(ends: Array) -> Array:
    return np.asarray((ends[:, 2] - ends[:, 0]) * (ends[:, 3] - ends[:, 1]))
