"""Boxes y1, x1, y2, x2 in one unit, usually fractions of a photo: overlaps, suppression."""

import numpy as np

from odt.kernels.rows.opdef import Array

DETECTIONS = 100  # of a photo in metrics
CANDIDATES = 400  # highest scores of a class that suppression looks at


def corners(anchors: Array) -> Array:
    """Returns the boxes (A, 4) of anchors (A, 4): center y, center x, height, width."""
    half = anchors[:, 2:] / 2
    return np.concatenate((anchors[:, :2] - half, anchors[:, :2] + half), axis=1)


def areas(boxes: Array) -> Array:
    """Returns the areas (N,) of boxes (N, 4)."""
    area: Array = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return area


def overlaps(a: Array, b: Array, b_areas: Array | None = None) -> Array:
    """Returns the intersection over union (N, M) of boxes a (N, 4) and b (M, 4).

    Boxes without area overlap nothing.

    Args:
        a: boxes.
        b: other boxes.
        b_areas: areas of b, if they are known.
    """
    size: Array | None = None
    for low, high in ((0, 2), (1, 3)):
        length = np.minimum(a[:, high, None], b[:, high])
        length -= np.maximum(a[:, low, None], b[:, low])
        np.maximum(length, 0, out=length)
        size = length if size is None else np.multiply(size, length, out=size)
    assert size is not None, "boxes have two axes"
    union = areas(a)[:, None] + (areas(b) if b_areas is None else b_areas)
    union -= size
    np.divide(size, union, out=size, where=union > 0)
    return size


def suppress(boxes: Array, scores: Array, iou: float, most: int) -> Array:
    """Returns the numbers of the boxes that stay, by descending score.

    Greedy non-maximum suppression: a box goes if it overlaps a better one by more than `iou`.

    Args:
        boxes: boxes (N, 4).
        scores: their scores (N,).
        iou: largest intersection over union of two boxes that stay.
        most: largest number of boxes.
    """
    order = np.argsort(-scores, kind="stable")[:CANDIDATES]
    boxes = boxes[order]
    beside = overlaps(boxes, boxes) > iou
    stays = np.ones(len(order), bool)
    count = 0
    for k in range(len(order)):
        if stays[k]:
            count += 1
            stays[k + 1 :] &= ~beside[k, k + 1 :]
            if count == most:
                stays[k + 1 :] = False
    numbers: Array = order[stays]
    return numbers


def best_detections(boxes: Array, scores: Array, least: float, iou: float) -> Array:
    """Returns detections (K, 6): class, score, box; boxes of a class suppress no others.

    Args:
        boxes: boxes (N, 4); those that are not finite are no detections.
        scores: their scores (N, C) of each class.
        least: scores of detections are above it.
        iou: largest intersection over union of two boxes of a class.
    """
    is_finite = np.isfinite(boxes).all(axis=1)
    parts = []
    for number, values in enumerate(scores.T):
        at = np.flatnonzero(is_finite & (values > least))
        at = at[suppress(boxes[at], values[at], iou, DETECTIONS)]
        parts.append(np.column_stack((np.full(len(at), number), values[at], boxes[at])))
    rows = np.concatenate(parts).astype(np.float32)
    best: Array = rows[np.argsort(-rows[:, 1], kind="stable")[:DETECTIONS]]
    return best
