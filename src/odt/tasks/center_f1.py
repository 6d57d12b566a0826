"""F1 of detections by their centers, for detectors that find where an object is, not its size.

A detection is true if its center is within a true box of its class that no better detection has.
"""

import numpy as np

from odt.kernels.rows.opdef import Array
from odt.tasks.box_counts import BoxCounts


def count_centers(detections: Array, boxes: Array) -> BoxCounts:
    """Returns the counts of a photo.

    Args:
        detections: detections (K, 6): class, score, y1, x1, y2, x2.
        boxes: true boxes (M, 5): class, y1, x1, y2, x2; rows with a class below 0 are no boxes.
    """
    boxes = boxes[boxes[:, 0] >= 0]
    free = np.ones(len(boxes), bool)
    true = 0
    for row in detections[np.argsort(-detections[:, 1], kind="stable")]:
        center = (row[2:4] + row[4:6]) / 2
        inside = (boxes[:, 1:3] <= center).all(1) & (center <= boxes[:, 3:5]).all(1)
        at = np.flatnonzero(free & inside & (boxes[:, 0] == row[0]))
        if len(at):
            free[at[0]] = False
            true += 1
    return BoxCounts(true, len(detections) - true, len(boxes) - true)
