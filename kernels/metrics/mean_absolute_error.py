"""Mean absolute error: mean of |y − t| over all values.

Source: Keras' MeanAbsoluteError.
"""

import numpy as np

from odt.kernels.metricdef import NUMBERS, MeanMetric, MetricDef, blocks
from odt.kernels.opdef import Array


class MeanAbsoluteError(MeanMetric):
    def update(self, y: Array, t: Array) -> None:
        for a, b in blocks(y, t, 1):
            self.total += float(np.abs(a - b).sum(dtype=np.float64))
            self.count += len(a)


METRIC = MetricDef(
    "mean_absolute_error",
    MeanAbsoluteError,
    "mean of |y − t|",
    (NUMBERS,),
    words=("mae",),
    place=8,
)
