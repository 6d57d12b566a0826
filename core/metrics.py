"""Figures over all samples of a pass. A metric sees outputs y and targets t, batch after batch.

A sample is everything but the first axis. ROWS of them are looked at together, so that scratch
does not grow with the batch.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np

from odt.errors import OptionError
from odt.kernels.opdef import Array

ROWS = 1024


class Metric(Protocol):
    """A figure that grows with each batch."""

    def update(self, y: Array, t: Array) -> None: ...

    def value(self) -> float: ...


def _blocks(y: Array, t: Array, width: int) -> Iterator[tuple[Array, Array]]:
    """Rows of width values of y, and as many rows of t."""
    y = y.reshape(-1, width, copy=False)
    t = t.reshape(len(y), -1, copy=False)
    for at in range(0, len(y), ROWS):
        yield y[at : at + ROWS], t[at : at + ROWS]


class _Mean:
    def __init__(self) -> None:
        self.total = 0.0
        self.count = 0

    def value(self) -> float:
        return self.total / self.count if self.count else 0.0


class CategoricalAccuracy(_Mean):
    """Share of samples whose greatest output is where the greatest target is; the first wins."""

    def update(self, y: Array, t: Array) -> None:
        for a, b in _blocks(y, t, y[0].size):
            self.total += int(np.count_nonzero(a.argmax(axis=1) == b.argmax(axis=1)))
            self.count += len(a)


class SparseCategoricalAccuracy(_Mean):
    """Share of positions whose greatest output, along the last axis, is at the target's label."""

    def update(self, y: Array, t: Array) -> None:
        for a, b in _blocks(y, t, y.shape[-1]):
            self.total += int(np.count_nonzero(a.argmax(axis=1) == b[:, 0]))
            self.count += len(a)


class BinaryAccuracy(_Mean):
    """Share of values on the same side of 0.5 as their target."""

    def update(self, y: Array, t: Array) -> None:
        for a, b in _blocks(y, t, 1):
            self.total += int(np.count_nonzero((a > 0.5) == (b > 0.5)))
            self.count += len(a)


class MeanAbsoluteError(_Mean):
    """Mean of |y − t| over all values."""

    def update(self, y: Array, t: Array) -> None:
        for a, b in _blocks(y, t, 1):
            self.total += float(np.abs(a - b).sum(dtype=np.float64))
            self.count += len(a)


class MeanSquaredError(_Mean):
    """Mean of (y − t)² over all values."""

    def update(self, y: Array, t: Array) -> None:
        for a, b in _blocks(y, t, 1):
            self.total += float(np.square(a - b, dtype=np.float64).sum())
            self.count += len(a)


class R2:
    """Coefficient of determination 1 − Σ(y − t)² / Σ(t − mean t)², over all values together."""

    def __init__(self) -> None:
        self.residual = self.mean = self.spread = 0.0
        self.count = 0

    def update(self, y: Array, t: Array) -> None:
        for a, b in _blocks(y, t, 1):
            self.residual += float(np.square(a - b, dtype=np.float64).sum())
            # Chan, Golub, LeVeque (1979): means and spreads of two parts give those of the whole.
            mean, n = float(b.mean(dtype=np.float64)), len(b)
            step, both = mean - self.mean, self.count + n
            self.spread += float(np.square(b - mean, dtype=np.float64).sum())
            self.spread += step * step * self.count * n / both
            self.mean += step * n / both
            self.count = both

    def value(self) -> float:
        return 1 - self.residual / self.spread if self.spread else 0.0


# In the order of onert_train's numbers, which knows only the first.
METRICS: Mapping[str, type[Metric]] = {
    "categorical_accuracy": CategoricalAccuracy,
    "sparse_categorical_accuracy": SparseCategoricalAccuracy,
    "binary_accuracy": BinaryAccuracy,
    "mean_absolute_error": MeanAbsoluteError,
    "mean_squared_error": MeanSquaredError,
    "r2": R2,
}


def find_metric(name: str) -> tuple[str, type[Metric]]:
    """A metric by name, with - or _, or by onert_train's number (0: categorical accuracy).

    Raises:
        OptionError: if there is none of that name.
    """
    key = "categorical_accuracy" if name == "0" else name.replace("-", "_")
    if key not in METRICS:
        raise OptionError(f"--metric: must be one of {', '.join(METRICS)}, or 0, but got {name}.")
    return key, METRICS[key]
