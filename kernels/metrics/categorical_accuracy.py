"""Categorical accuracy: fraction of positions whose class with the largest output is right.

Both are along the last axis; the first counts if values are equal.

Source: Keras' CategoricalAccuracy.
"""

import numpy as np

from odt.kernels.rows.metricdef import CLASS_ROWS, MeanMetric, MetricDef
from odt.kernels.rows.opdef import Array


class CategoricalAccuracy(MeanMetric):
    def sum(self, y: Array, t: Array) -> float:
        return int(np.count_nonzero(y.argmax(axis=1) == t.argmax(axis=1)))


METRIC = MetricDef(
    "categorical_accuracy",
    CategoricalAccuracy,
    "fraction of positions whose largest output is at the index of the largest target",
    (CLASS_ROWS,),
    onert=0,
    place=0,
)
