"""Categorical accuracy: fraction of positions whose largest output is at the largest target.

Classes are along the last axis; of equal values, the first is the largest.

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
