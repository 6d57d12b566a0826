"""Sparse categorical accuracy: fraction of positions whose largest output is at the label.

Both are along the last axis; the first counts if values are equal.

Source: Keras' SparseCategoricalAccuracy.
"""

import numpy as np

from odt.kernels.lossdef import LABELS
from odt.kernels.metricdef import MeanMetric, MetricDef, blocks
from odt.kernels.opdef import Array


class SparseCategoricalAccuracy(MeanMetric):
    def update(self, y: Array, t: Array) -> None:
        for a, b in blocks(y, t, y.shape[-1]):
            self.total += int(np.count_nonzero(a.argmax(axis=1) == b[:, 0]))
            self.count += len(a)


METRIC = MetricDef(
    "sparse_categorical_accuracy",
    SparseCategoricalAccuracy,
    "fraction of positions whose largest output is at the label",
    (LABELS,),
    place=1,
)
