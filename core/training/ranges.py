"""Ranges and means of activations over samples.

A range is that of percentiles, that of all values, or the one with the least squared error of
rounding and clipping. Percentiles leave out a few values far outside, which would make all steps
coarse.
"""

from collections.abc import Mapping

import numpy as np

from odt.core.data.dataset import DataSet
from odt.core.data.protocol import SampleOrder
from odt.core.training.trace import Trace
from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array

METHODS = ("percentile", "minmax", "mse")
BINS = 2048  # of a histogram between the smallest and the largest value
TAIL = 1e-5  # fraction of the values that percentiles leave out on each side
STEPS = 64  # ranges that are tried for the least squared error: 1/64 to all of the whole range


@dataclass(frozen=True, slots=True)
class Range:
    """Smallest and largest value of a tensor; the range contains 0."""

    lo: float
    hi: float

    def union(self, other: "Range") -> "Range":
        """The range that contains both."""
        return Range(min(self.lo, other.lo), max(self.hi, other.hi))


def evenly_spaced(data: DataSet, count: int) -> SampleOrder:
    """Numbers of samples that are evenly spaced in the data, at most `count`."""
    numbers: list[int] = (
        np.linspace(0, data.length - 1, min(data.length, count)).astype(int).tolist()
    )
    return numbers


def measure(
    trace: Trace, data: DataSet, order: SampleOrder, method: str, levels: int
) -> tuple[Mapping[int, Range], Mapping[int, Array]]:
    """Measures each float tensor over samples.

    Args:
        trace: computes the tensors.
        data: the samples.
        order: numbers of those to use.
        method: one of METHODS.
        levels: integers that will represent a range, for `mse`.

    Returns:
        The range of each tensor whose values are finite, and the mean of each channel, the last
        axis, of every tensor.

    Raises:
        DataError: if a sample cannot be read.
    """
    ranges: dict[int, Range] = {}
    sums: dict[int, Array] = {}
    tails: dict[int, tuple[Array, Array]] = {}  # the largest values of −a and of a
    batches = len(order) // trace.batch
    for i, a in trace.run(data, order):
        if method == "percentile" and a.dtype.kind == "f":
            count = 1 + int(TAIL * a.size * batches)
            none = np.empty(0, a.dtype)
            low, high = tails.get(i, (none, none))
            low, high = _largest(low, a, count, -1), _largest(high, a, count, 1)
            tails[i] = low, high
            ranges[i] = Range(min(-float(low.min()), 0.0), max(float(high.min()), 0.0))
        else:
            new = Range(min(float(a.min()), 0.0), max(float(a.max()), 0.0))
            ranges[i] = ranges[i].union(new) if i in ranges else new
        channels = a.reshape(-1, *a.shape[-1:]).mean(axis=0, dtype=np.float64)
        sums[i] = sums[i] + channels if i in sums else channels
    means = {i: a / batches for i, a in sums.items()}
    ranges = {i: whole for i, whole in ranges.items() if np.isfinite(means[i]).all()}
    if method != "mse":
        return ranges, means
    counts = _histograms(trace, data, order, ranges)
    return {i: _least_error(counts[i], whole, levels) for i, whole in ranges.items()}, means


def _largest(largest: Array, a: Array, count: int, sign: int) -> Array:
    """Returns the largest of some values and of an array times a sign, at most `count`."""
    values = a.reshape(-1)
    if largest.size >= count:
        bound = sign * largest.min()
        values = values[values > bound if sign > 0 else values < bound]
    both = np.concatenate([largest, sign * values])
    return both if both.size <= count else np.partition(both, -count)[-count:].copy()


def _histograms(
    trace: Trace, data: DataSet, order: SampleOrder, whole: Mapping[int, Range]
) -> Mapping[int, Array]:
    counts = {i: np.zeros(BINS, np.int64) for i in whole}
    for i, a in trace.run(data, order):
        if i not in whole:
            continue
        width = (whole[i].hi - whole[i].lo) / BINS or 1.0
        bins = ((a.reshape(-1) - np.float32(whole[i].lo)) * np.float32(1 / width)).astype(int)
        counts[i] += np.bincount(np.minimum(bins, BINS - 1), minlength=BINS)
    return counts


def _least_error(counts: Array, whole: Range, levels: int) -> Range:
    """The range with the least mean squared error of rounding and clipping."""
    width = (whole.hi - whole.lo) / BINS
    x = whole.lo + width * (np.arange(BINS) + 0.5)
    best, least = whole, np.inf
    for k in range(1, STEPS + 1):
        lo, hi = whole.lo * k / STEPS, whole.hi * k / STEPS
        step = (hi - lo) / (levels - 1)
        outside = x - np.clip(x, lo, hi)
        inside = counts[outside == 0].sum() * step**2 / 12
        error = float(inside + (counts * outside**2).sum())
        if error < least:
            best, least = Range(lo, hi), error
    return best
