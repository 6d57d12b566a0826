"""Mean squared error: mean of (y − t)² over all values.

Source: Keras' MeanSquaredError.
"""

import numpy as np

from odt.kernels.rows.metricdef import NUMBERS, MeanMetric, MetricDef
from odt.kernels.rows.opdef import Array


class MeanSquaredError(MeanMetric):
    by_class = False

    def sum(self, y: Array, t: Array) -> float:
        return float(np.square(y - t, dtype=np.float64).sum())


METRIC = MetricDef(
    "mean_squared_error",
    MeanSquaredError,
    "mean of (y − t)²",
    (NUMBERS,),
    words=("mse",),
    place=9,
)
