"""Metrics, accumulated over the batches of a pass from outputs y and targets t.

The last axis counts classes, as in the losses. ROWS rows are processed at a time, so that scratch
memory does not grow with the batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from odt.dataclass import dataclass
from odt.errors import DataError, OptionError
from odt.kernels.lossdef import DISTRIBUTIONS, FRACTIONS, LABELS, VALUES
from odt.kernels.opdef import Array, TensorSpec
from odt.kernels.registry import LOSSES

ROWS = 1024


class Metric(Protocol):
    """Base class of metrics."""

    def update(self, y: Array, t: Array) -> None: ...

    def value(self) -> float: ...


def _blocks(y: Array, t: Array, width: int) -> Iterator[tuple[Array, Array]]:
    """Yields blocks of rows of `width` values of y, with the rows of t."""
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
    """Fraction of positions whose largest output is at the index of the largest target.

    Along the last axis; of equal values the first counts.
    """

    def update(self, y: Array, t: Array) -> None:
        for a, b in _blocks(y, t, y.shape[-1]):
            self.total += int(np.count_nonzero(a.argmax(axis=1) == b.argmax(axis=1)))
            self.count += len(a)


class SparseCategoricalAccuracy(_Mean):
    """Fraction of positions whose largest output, along the last axis, is at the target's label."""

    def update(self, y: Array, t: Array) -> None:
        for a, b in _blocks(y, t, y.shape[-1]):
            self.total += int(np.count_nonzero(a.argmax(axis=1) == b[:, 0]))
            self.count += len(a)


class BinaryAccuracy(_Mean):
    """Fraction of values on the same side of 0.5 as their target, which is 0 or 1."""

    def update(self, y: Array, t: Array) -> None:
        for a, b in _blocks(y, t, 1):
            other = b[(b != 0) & (b != 1)]
            if other.size:
                raise DataError(
                    f"`binary_accuracy`: targets must be 0 or 1, but got {other[0]:g}. "
                    "Of other numbers measure `mean_absolute_error` or `r2`."
                )
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


@dataclass(frozen=True, slots=True)
class MetricDef:
    """The row of a metric.

    Attributes:
        name: name on the command line, with underscores.
        make: creates the metric at the beginning of a pass.
        formula: formula of the metric over a pass, for the documentation.
        fits: forms of targets that it supports, words of kernels/lossdef.py.
        several: whether targets that are plain values must have several values per row.
        wants: description of the supported targets, for messages.
        onert: number of the metric in onert_train.
    """

    name: str
    make: type[Metric]
    formula: str
    fits: frozenset[str]
    several: bool = False
    wants: str = "values"
    onert: int | None = None


_FLOATS = frozenset((DISTRIBUTIONS, FRACTIONS, VALUES))
# The metric `accuracy` is the first of these that supports the targets of the loss.
METRIC_ROWS = (
    MetricDef(
        "categorical_accuracy",
        CategoricalAccuracy,
        "fraction of positions whose largest output is at the index of the largest target",
        frozenset((DISTRIBUTIONS, VALUES)),
        several=True,
        wants="rows with one value for each class",
        onert=0,
    ),
    MetricDef(
        "sparse_categorical_accuracy",
        SparseCategoricalAccuracy,
        "fraction of positions whose largest output is at the label",
        frozenset((LABELS,)),
        wants="integer labels",
    ),
    MetricDef(
        "binary_accuracy",
        BinaryAccuracy,
        "fraction of values on the same side of 0.5 as their target",
        frozenset((FRACTIONS, VALUES)),
        wants="independent values that are 0 or 1",
    ),
    MetricDef("mean_absolute_error", MeanAbsoluteError, "mean of |y − t|", _FLOATS),
    MetricDef("mean_squared_error", MeanSquaredError, "mean of (y − t)²", _FLOATS),
    MetricDef("r2", R2, "1 − Σ(y − t)² / Σ(t − mean t)²", _FLOATS),
)
METRICS: Mapping[str, type[Metric]] = {row.name: row.make for row in METRIC_ROWS}
ACCURACY = "accuracy"  # the one that fits, as in Keras


def fitting_metrics(names: Sequence[str], loss: str, output: TensorSpec) -> dict[str, type[Metric]]:
    """Selects metrics by name, and checks that they support the targets of a loss.

    Args:
        names: names in METRICS, or accuracy.
        loss: name of the loss.
        output: spec of one sample of the output that has the loss.

    Raises:
        OptionError: if a metric does not support the targets; names those that do.
    """
    targets = LOSSES[loss].targets
    single = targets == VALUES and output.shape[-1:] in ((), (1,))
    fitting = [r.name for r in METRIC_ROWS if targets in r.fits and not (single and r.several)]
    wants = {row.name: row.wants for row in METRIC_ROWS}
    found = {}
    for name in names:
        key = fitting[0] if name == ACCURACY else name
        if key not in wants:
            known = ", ".join(f"`{word}`" for word in (ACCURACY, *wants))
            raise OptionError("metrics", f"must be one of {known}", name)
        if key not in fitting:
            raise OptionError(
                "metrics",
                f"targets of `{key}` must be {wants[key]}",
                f"{targets}, those of `{loss}` on an output {output.shape}",
                f"Give {' or '.join(f'`{name}`' for name in fitting)}.",
            )
        found[key] = METRICS[key]
    return found
