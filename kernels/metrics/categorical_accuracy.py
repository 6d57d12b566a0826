"""Categorical accuracy: fraction of positions whose class with the largest output is right.

Both are along the last axis; the first counts if values are equal.

Source: Keras' CategoricalAccuracy.
"""

import numpy as np

from odt.kernels.metricdef import CLASS_ROWS, MeanMetric, MetricDef, blocks
from odt.kernels.opdef import Array


class CategoricalAccuracy(MeanMetric):
    def update(self, y: Array, t: Array) -> None:
        for a, b in blocks(y, t, y.shape[-1]):
            self.total += int(np.count_nonzero(a.argmax(axis=1) == b.argmax(axis=1)))
            self.count += len(a)


METRIC = MetricDef(
    "categorical_accuracy",
    CategoricalAccuracy,
    "fraction of positions whose largest output is at the index of the largest target",
    (CLASS_ROWS,),
    onert=0,
    place=0,
)
