"""Binary accuracy: fraction of values on the same side of the threshold as their target.

The threshold is the probability 0.5, or the logit 0.

Source: Keras' BinaryAccuracy.
"""

import numpy as np

from odt.kernels.metricdef import FLAGS, MeanMetric, MetricDef, blocks, check_flags
from odt.kernels.opdef import Array


class BinaryAccuracy(MeanMetric):
    def update(self, y: Array, t: Array) -> None:
        for a, b in blocks(y, t, 1):
            check_flags(b, METRIC.name)
            predicted = a > self.form.threshold
            self.total += int(np.count_nonzero(predicted == (b > 0.5)))
            self.count += len(a)


METRIC = MetricDef(
    "binary_accuracy",
    BinaryAccuracy,
    "fraction of values on the same side of 0.5 as their target",
    (FLAGS,),
    place=2,
)
