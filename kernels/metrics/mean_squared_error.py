"""Mean squared error: mean of (y − t)² over all values.

Source: Keras' MeanSquaredError.
"""

import numpy as np

from odt.kernels.metricdef import NUMBERS, MeanMetric, MetricDef, blocks
from odt.kernels.opdef import Array


class MeanSquaredError(MeanMetric):
    def update(self, y: Array, t: Array) -> None:
        for a, b in blocks(y, t, 1):
            self.total += float(np.square(a - b, dtype=np.float64).sum())
            self.count += len(a)


METRIC = MetricDef(
    "mean_squared_error",
    MeanSquaredError,
    "mean of (y − t)²",
    (NUMBERS,),
    words=("mse",),
    place=9,
)
