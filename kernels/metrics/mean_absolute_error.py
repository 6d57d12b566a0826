"""Mean absolute error: mean of |y − t| over all values.

Source: Keras' MeanAbsoluteError.
"""

import numpy as np

from odt.kernels.rows.metricdef import NUMBERS, MeanMetric, MetricDef
from odt.kernels.rows.opdef import Array


class MeanAbsoluteError(MeanMetric):
    by_class = False

    def sum(self, y: Array, t: Array) -> float:
        return float(np.abs(y - t).sum(dtype=np.float64))


METRIC = MetricDef(
    "mean_absolute_error",
    MeanAbsoluteError,
    "mean of |y − t|",
    (NUMBERS,),
    words=("mae",),
    place=8,
)
