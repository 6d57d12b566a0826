"""Matches boxes with anchors, and codes boxes relative to their anchors.

The matcher and the codes are those of SSD and EfficientDet. Source: TensorFlow Object Detection
API, argmax_matcher.py and faster_rcnn_box_coder.py.
"""

import numpy as np

from odt.kernels.rows.opdef import Array
from odt.tasks.geometry import areas, overlaps

MATCH = 0.5  # least intersection over union of an anchor with its box


def match(anchor_boxes: Array, boxes: Array, anchor_areas: Array | None = None) -> Array:
    """Returns the number of the box of each anchor (A,), −1 for none.

    An anchor has the box that it overlaps most, if it overlaps it by half or more. Each box also
    has the anchor that overlaps it most; the first box does where several have the same.

    Args:
        anchor_boxes: boxes (A, 4) of the anchors.
        boxes: boxes (M, 4).
        anchor_areas: areas of the anchors, if they are known.
    """
    if not len(boxes):
        return np.full(len(anchor_boxes), -1)
    if anchor_areas is None:
        anchor_areas = areas(anchor_boxes)
    iou = overlaps(boxes, anchor_boxes, anchor_areas)
    matches: Array = iou.argmax(0)
    matches[iou.max(0) < MATCH] = -1
    best = iou.argmax(1)
    for box in reversed(range(len(boxes))):
        matches[best[box]] = box
    return matches


def encode(boxes: Array, anchors: Array, scales: Array) -> Array:
    """Returns the codes (N, 4) of boxes: y, x, height, width, times the scales.

    Args:
        boxes: boxes (N, 4).
        anchors: their anchors (N, 4): center y, center x, height, width.
        scales: four factors.
    """
    sizes = boxes[:, 2:] - boxes[:, :2]
    centers = boxes[:, :2] + sizes / 2
    offsets = (centers - anchors[:, :2]) / anchors[:, 2:]
    codes: Array = np.concatenate((offsets, np.log(sizes / anchors[:, 2:])), axis=1) * scales
    return codes


def decode(codes: Array, anchors: Array, scales: Array) -> Array:
    """Returns the boxes (N, 4) of codes; the inverse of `encode`."""
    codes = codes / scales
    centers = codes[:, :2] * anchors[:, 2:] + anchors[:, :2]
    half = np.exp(codes[:, 2:]) * anchors[:, 2:] / 2
    return np.concatenate((centers - half, centers + half), axis=1)
