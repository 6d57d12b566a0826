"""Geometry of windows in convolution and pooling, forward and backward, one axis at a time.

Output o of a window with K taps reads the input at o·stride + k·dilation − lo.

The input gradient needs no scatter. Tap k contributes to the gradient of input i if
i + lo − k·dilation is a multiple of the stride, so the taps that contribute depend only on i modulo
the stride: its stride phase. For the inputs of one phase, the gradient is therefore a convolution
of the output gradient with stride 1 and a subset of the taps, in reverse order.
"""

from dataclasses import replace
from functools import lru_cache
from math import gcd

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.rows.opdef import Array

SAME, VALID = 0, 1  # Padding in the schema


@dataclass(frozen=True, slots=True)
class Axis:
    """Geometry of one axis.

    Attributes:
        size, out: lengths of input and output.
        kernel, stride, dilation: attributes of the window.
        lo, hi: zeros before and after the input.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    lo: int
    hi: int
    out: int

    @property
    def reading(self) -> "Reading":
        """Returns the windows of the forward pass over an input padded by lo and hi."""
        return Reading(0, self.out, self.stride, self.kernel, self.dilation)


@dataclass(frozen=True, slots=True)
class Reading:
    """Windows along one axis of a padded array.

    Attributes:
        start: position of the first tap of the first window.
        count: number of windows.
        stride: distance between windows.
        taps: number of taps in a window.
        dilation: distance between taps.
    """

    start: int
    count: int
    stride: int
    taps: int
    dilation: int


@dataclass(frozen=True, slots=True)
class StridePhase:
    """The inputs first, first + stride, …, and the windows of the output gradient for them.

    Attributes:
        first: the first input of the phase.
        taps: taps of the forward window in the order in which they are read; may be empty.
        reading: windows of the output gradient, padded as returned by `phases`.
    """

    first: int
    taps: tuple[int, ...]
    reading: Reading

    @property
    def slice(self) -> slice:
        """Returns the taps, at least one, as a slice; their step is constant."""
        step = self.taps[1] - self.taps[0] if len(self.taps) > 1 else -1
        stop = self.taps[-1] + step
        return slice(self.taps[0], stop if stop >= 0 else None, step)


@lru_cache
def axis(
    size: int,
    kernel: int,
    stride: int,
    dilation: int,
    padding: int,
    zeros: tuple[int, int] = (0, 0),
) -> Axis:
    """Computes the geometry of one axis.

    Args:
        size: length of the axis.
        kernel, stride, dilation: taps of a window, and the distances of windows and of taps.
        padding: SAME, or VALID for padding with `zeros` alone.
        zeros: zeros before and after the axis, if padding is VALID.

    Raises:
        ShapeError: if size, kernel, stride or dilation is below 1, padding is unknown, or no window
            fits.
    """
    if size < 1:
        raise ShapeError(f"an axis that windows read must be 1 or more, but got {size}")
    if stride < 1 or dilation < 1 or kernel < 1:
        raise ShapeError(
            "kernel, stride and dilation must be 1 or more, "
            f"but got {kernel}, {stride} and {dilation}"
        )
    if padding not in (SAME, VALID):
        raise ShapeError(f"padding must be SAME (0) or VALID (1), but got {padding}")
    span = (kernel - 1) * dilation + 1
    if padding == SAME:
        out = -(-size // stride)
        total = max((out - 1) * stride + span - size, 0)
        return Axis(size, kernel, stride, dilation, total // 2, total - total // 2, out)
    padded = size + sum(zeros)
    if padded < span:
        raise ShapeError(f"a window of {span} must fit into the input, but got {padded}")
    return Axis(size, kernel, stride, dilation, *zeros, (padded - span) // stride + 1)


def trimmed(a: Axis) -> Axis:
    """Returns the same windows without the taps that read the input in none of them.

    A window may be much longer than the input, with padding SAME. Its first and last taps read
    zeros alone, which neither a maximum nor a mean without padding counts.
    """
    assert a.dilation == 1, "windows of pools have no dilation"
    first = max(0, a.lo - (a.out - 1) * a.stride)
    stop = min(a.kernel, a.size + a.lo)
    return Axis(
        a.size, stop - first, a.stride, 1, a.lo - first, max(0, a.hi - (a.kernel - stop)), a.out
    )


@lru_cache
def phases(a: Axis) -> tuple[int, int, tuple[StridePhase, ...]]:
    """Computes the geometry of the backward pass along one axis.

    Returns:
        Zeros to add before and after the output gradient, and the stride phases.
    """
    step = a.stride // gcd(a.stride, a.dilation)  # distance between the taps of one phase
    result: list[StridePhase] = []
    for first in range(min(a.stride, a.size)):
        count = -(-(a.size - first) // a.stride)
        taps = [k for k in range(a.kernel) if (first + a.lo - k * a.dilation) % a.stride == 0]
        taps.reverse()
        start = (first + a.lo - taps[0] * a.dilation) // a.stride if taps else 0
        dilation = step * a.dilation // a.stride
        reading = Reading(start, count, 1, len(taps), dilation)
        result.append(StridePhase(first, tuple(taps), reading))
    readings = [phase.reading for phase in result if phase.taps]
    lo = max([0, *(-r.start for r in readings)])
    end = max([a.out, *(r.start + r.count + (r.taps - 1) * r.dilation for r in readings)])
    padded = (
        replace(phase, reading=replace(phase.reading, start=phase.reading.start + lo))
        for phase in result
    )
    return lo, end - a.out, tuple(padded)


def windows(a: Array, h: Reading, w: Reading, first: int = 0, stop: int | None = None) -> Array:
    """Views all windows of a padded batch, without a copy.

    Args:
        a: padded images (N, H, W, C).
        h, w: windows along each axis.
        first, stop: range of rows of windows.

    Returns:
        A view (N, rows, w.count, h.taps, w.taps, C).
    """
    stop = h.count if stop is None else stop
    n, down, right, c = a.strides
    start = a[:, h.start + first * h.stride :, w.start :]
    return np.lib.stride_tricks.as_strided(
        start,
        (a.shape[0], stop - first, w.count, h.taps, w.taps, a.shape[3]),
        (n, down * h.stride, right * w.stride, down * h.dilation, right * w.dilation, c),
    )


def clear_border(padded: Array, h: tuple[int, int], w: tuple[int, int], value: float = 0) -> None:
    """Fills the border of padded images (N, H, W, C); `fill_inside` fills the rest.

    Args:
        padded: the images with their border.
        h, w: width of the border before and after each axis.
        value: value of the border.
    """
    padded[:, : h[0]] = value
    padded[:, padded.shape[1] - h[1] :] = value
    padded[:, :, : w[0]] = value
    padded[:, :, padded.shape[2] - w[1] :] = value


def fill_inside(padded: Array, a: Array, h_lo: int, w_lo: int) -> Array:
    """Copies images inside the border; returns the part of `padded` that holds them."""
    images, height, width, _ = a.shape
    inside = padded[:images]
    np.copyto(inside[:, h_lo : h_lo + height, w_lo : w_lo + width], a)
    return inside
