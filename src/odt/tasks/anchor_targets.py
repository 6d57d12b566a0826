"""Targets and weights of boxes that are matched with anchors."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from odt.kernels.rows.opdef import Array
from odt.tasks.detector import real_boxes
from odt.tasks.geometry import areas, corners
from odt.tasks.matching import match

BOX = 4  # values of a box
# Boxes (N, 4) and the numbers of their anchors (N,) → codes (N, 4).
Codes: TypeAlias = Callable[[Array, Array], Array]


class AnchorTargets:
    """Writes the targets of two outputs: codes of a box, and scores of classes, of each anchor.

    The loss of an output is its mean over anchors and values. Weights make that of codes
    `box_weight` times the sum over the anchors with a box, each with its mean over values, and that
    of scores the sum over all anchors and classes. Both are divided by the mean number of anchors
    with a box in a photo, at least 1.

    Attributes:
        columns: class of the data → column of the scores.

    Args:
        anchors: anchors (A, 4): center y, center x, height, width.
        columns: as the attribute.
        positives: mean number of anchors with a box in a photo.
    """

    def __init__(self, anchors: Array, columns: Sequence[int], positives: float) -> None:
        self.columns = np.array(columns, np.intp)
        self._positives = max(positives, 1.0)
        self._boxes = corners(anchors)
        self._areas = areas(self._boxes)

    def positives(self, boxes: Array) -> int:
        """Returns the number of anchors with a box in a photo with boxes (M, 5)."""
        return int((self._match(real_boxes(boxes)) >= 0).sum())

    def write(
        self, boxes: Array, targets: Sequence[Array], codes_of: Codes, box_weight: float
    ) -> None:
        """Writes targets and weights of photos.

        Args:
            boxes: boxes (N, M, 5): class, y1, x1, y2, x2; rows of the class −1 are none.
            targets: codes and scores (N, …), then their weights: (N, A), or (N, …) of all values.
            codes_of: computes codes.
            box_weight: factor of the loss of boxes.
        """
        count = len(self._boxes)
        codes, classes, code_weights, class_weights = (
            a.reshape(len(boxes), count, -1, copy=False) for a in targets
        )
        for a in (codes, classes, code_weights):
            a[...] = 0
        weight = count / self._positives
        class_weights[...] = weight * classes.shape[-1]
        for k, rows in enumerate(map(real_boxes, boxes)):
            matches = self._match(rows)
            at = np.flatnonzero(matches >= 0)
            matched = rows[matches[at]]
            codes[k, at, :BOX] = codes_of(matched[:, 1:], at)
            code_weights[k, at, :BOX] = weight * box_weight
            classes[k, at, self.columns[matched[:, 0].astype(np.intp)]] = 1

    def _match(self, boxes: Array) -> Array:
        return match(self._boxes, boxes[:, 1:], self._areas)
