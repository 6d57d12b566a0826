"""Coefficient of determination: 1 − Σ(y − t)² / Σ(t − mean t)², over all values together.

0 if all targets are equal.

Source: scikit-learn's r2_score of flat arrays; Keras' R2Score.
"""

import numpy as np

from odt.kernels.rows.metricdef import NUMBERS, Metric, MetricDef, OutputForm, blocks
from odt.kernels.rows.opdef import Array


class R2(Metric):
    def __init__(self, form: OutputForm) -> None:
        super().__init__(form)
        self.residual = self.mean = self.spread = 0.0
        self.count = 0

    def update(self, y: Array, t: Array) -> None:
        for outputs, targets in blocks(y, t, 1):
            self.residual += float(np.square(outputs - targets, dtype=np.float64).sum())
            # Chan, Golub, LeVeque (1979): means and spreads of two parts give those of the whole.
            mean, n = float(targets.mean(dtype=np.float64)), len(targets)
            step, count = mean - self.mean, self.count + n
            self.spread += float(np.square(targets - mean, dtype=np.float64).sum())
            self.spread += step * step * self.count * n / count
            self.mean += step * n / count
            self.count = count

    def value(self) -> float:
        return 1 - self.residual / self.spread if self.spread else 0.0


METRIC = MetricDef(
    "r2",
    R2,
    "1 − Σ(y − t)² / Σ(t − mean t)²",
    (NUMBERS,),
    words=("r2_score",),
    place=11,
)
