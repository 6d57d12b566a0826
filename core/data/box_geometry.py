"""Boxes (M, 5) that move with their image: class, y1, x1, y2, x2 as fractions of height and width.

A row without a box has the class −1 and zeros.
"""

import numpy as np

from odt.kernels.rows.opdef import Array

VISIBLE = 0.3  # smallest part of a box's area that must stay in the image
NO_BOX = (-1, 0, 0, 0, 0)


def move_boxes(boxes: Array, rows: tuple[float, float], columns: tuple[float, float]) -> None:
    """Scales and shifts boxes in place, as their image was changed.

    Args:
        boxes: (M, 5). Boxes of which less than VISIBLE stays inside become rows without a box.
        rows, columns: factor and offset: y becomes factor · y + offset. A negative factor mirrors.
    """
    corners = boxes[:, 1:].astype(np.float64)
    for axis, (factor, offset) in enumerate((rows, columns)):
        corners[:, axis::2] = np.sort(corners[:, axis::2] * factor + offset, axis=1)
    replace_boxes(boxes, corners)


def replace_boxes(boxes: Array, corners: Array) -> None:
    """Replaces the corners of boxes in place, clipped to the image.

    Args:
        boxes: (M, 5). Boxes of which less than VISIBLE stays inside become rows without a box.
        corners: (M, 4): y1, x1, y2, x2, which may be outside of the image.
    """
    clipped = np.clip(corners, 0, 1)
    visible = _areas(clipped)
    stays = (boxes[:, 0] >= 0) & (visible > 0) & (visible >= VISIBLE * _areas(corners))
    boxes[:, 1:] = clipped
    boxes[~stays] = NO_BOX


def _areas(corners: Array) -> Array:
    return np.asarray((corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1]))
