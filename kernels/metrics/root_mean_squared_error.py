"""Root mean squared error: √ of the mean of (y − t)² over all values, in the unit of the targets.

Source: Keras' RootMeanSquaredError.
"""

import math

from odt.kernels.metrics.mean_squared_error import MeanSquaredError
from odt.kernels.rows.metricdef import NUMBERS, MetricDef


class RootMeanSquaredError(MeanSquaredError):
    def value(self) -> float:
        return math.sqrt(super().value())


METRIC = MetricDef(
    "root_mean_squared_error",
    RootMeanSquaredError,
    "√ mean of (y − t)²",
    (NUMBERS,),
    words=("rmse",),
    place=10,
)
