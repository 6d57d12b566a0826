"""Sparse categorical accuracy: fraction of positions whose largest output is at the label.

Outputs of classes are along the last axis; of equal ones, the first is the largest.

Source: Keras' SparseCategoricalAccuracy.
"""

import numpy as np

from odt.kernels.rows.lossdef import LABELS
from odt.kernels.rows.metricdef import MeanMetric, MetricDef
from odt.kernels.rows.opdef import Array


class SparseCategoricalAccuracy(MeanMetric):
    by_row = True

    def sum_of_rows(self, terms: Array, best: Array, t: Array) -> float:
        return int(np.count_nonzero(best == t))

    def sum(self, y: Array, t: Array) -> float:
        return int(np.count_nonzero(y.argmax(axis=1) == t[:, 0]))


METRIC = MetricDef(
    "sparse_categorical_accuracy",
    SparseCategoricalAccuracy,
    "fraction of positions whose largest output is at the label",
    (LABELS,),
    place=1,
)
