"""Binary accuracy: fraction of values on the same side of the threshold as their target.

The threshold is the probability 0.5, or the logit 0.

Source: Keras' BinaryAccuracy.
"""

import numpy as np

from odt.kernels.rows.metricdef import FLAGS, MeanMetric, MetricDef, check_flags
from odt.kernels.rows.opdef import Array


class BinaryAccuracy(MeanMetric):
    by_class = False

    def sum(self, y: Array, t: Array) -> float:
        check_flags(t, METRIC.name)
        return int(np.count_nonzero((y > self.form.threshold) == (t > 0.5)))


METRIC = MetricDef(
    "binary_accuracy",
    BinaryAccuracy,
    "fraction of values on the same side of 0.5 as their target",
    (FLAGS,),
    place=2,
)
