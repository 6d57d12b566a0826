"""Top-k accuracy: fraction of positions whose class is among the k largest outputs.

Classes are along the last axis. Of equal outputs the first one is larger, so k = 1 is the accuracy.

Source: Keras' TopKCategoricalAccuracy, k = 5 by default; scikit-learn's top_k_accuracy_score.
"""

import numpy as np

from odt.errors import OptionError
from odt.kernels.rows.lossdef import LABELS
from odt.kernels.rows.metricdef import (
    CLASS_ROWS,
    MeanMetric,
    MetricDef,
    OutputForm,
    labels_of,
)
from odt.kernels.rows.opdef import Array


class TopKAccuracy(MeanMetric):
    def __init__(self, form: OutputForm, k: int) -> None:
        super().__init__(form)
        n = form.classes
        if not 0 < k < n:
            rule = f"k of `top_{k}_accuracy` must be from 1 to {n - 1} for {n} classes"
            raise OptionError("metrics", rule, k, "Give a smaller number." if k else "")
        self.k = k

    def sum(self, y: Array, t: Array) -> float:
        labels = labels_of(t, self.form)[:, np.newaxis]
        scores = np.take_along_axis(y, labels.astype(np.intp), axis=1)
        before = np.arange(y.shape[1]) < labels
        larger = np.count_nonzero((y > scores) | ((y == scores) & before), axis=1)
        return int(np.count_nonzero(larger < self.k))


METRIC = MetricDef(
    "top_k_accuracy",
    TopKAccuracy,
    "fraction of positions whose class is among the k largest outputs",
    (CLASS_ROWS, LABELS),
    words=("top_k_categorical_accuracy", "sparse_top_k_categorical_accuracy"),
    k=5,
    place=3,
)
