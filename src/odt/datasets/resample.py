"""Resampling of sounds: a band-limited interpolation with a windowed sinc.

An output sample is the sum of the input around its time, weighted by sinc(t) under a Kaiser
window. The transition band ends at half of the lower rate, so that nothing above it is folded back;
the stop band is 96 dB down, and the pass band reaches 90 % of half of the lower rate. For rates
L : M in lowest terms there are L sets of weights (a polyphase filter). Source: Crochiere and
Rabiner, Multirate Digital Signal Processing (1983); Kaiser (1974) for the window.
"""

import math
from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np

from odt.errors import DataError
from odt.kernels.rows.opdef import Array

CROSSINGS = 64  # zero crossings of the sinc on each side
STOP = 96.0  # dB
BLOCK = 1 << 17  # samples that are read or computed at once
MAX_WEIGHTS = 1 << 21  # of all phases together, kept in memory
MAX_GROUP = 1 << 18  # weights that are computed at once, if those of all phases are more
MAX_RATIO = 1000  # of the rates

# Width of the transition band as a part of half of the lower rate.
TRANSITION = (STOP - 8) / (2.285 * 2 * CROSSINGS * math.pi)


def resampled_length(length: int, old: int, new: int) -> int:
    """Returns the number of samples after resampling: all whose time lies within the sound."""
    return -(-length * new // old)


def reach(old: int, new: int) -> int:
    """Returns the number of input samples on each side that an output sample depends on."""
    return math.ceil(CROSSINGS * max(1.0, old / new))


def resample(
    read: Callable[[int, int], Array], length: int, old: int, new: int, count_out: int
) -> Array:
    """Resamples a sound in blocks of bounded memory.

    Args:
        read: returns the input samples of [start, stop) within 0 … length.
        length: number of input samples.
        old, new: sample rates in Hz.
        count_out: number of output samples, from the beginning.

    Returns:
        float32 (count_out,).

    Raises:
        DataError: if the new rate is below a thousandth of the old one.
    """
    if old > MAX_RATIO * new:
        raise DataError(
            f"must have at most {MAX_RATIO * new} samples per second to become {new}, but has {old}"
        )
    shared = math.gcd(old, new)
    up, down = new // shared, old // shared
    side = reach(old, new)
    taps = 2 * side
    table = _table(up, down, side) if up * taps <= MAX_WEIGHTS else None
    group_size = max(1, MAX_GROUP // taps)  # phases whose weights are computed at once, if no table
    y = np.empty(count_out, np.float32)
    step = max(1, min(BLOCK, BLOCK * new // old))
    for first in range(0, count_out, step):
        count = min(step, count_out - first)
        start = first * down // up - side + 1
        stop = (first + count - 1) * down // up + side + 1
        x = np.zeros(stop - start)
        part = read(max(0, start), min(stop, length))
        x[max(0, -start) : max(0, -start) + len(part)] = part
        windows = np.lib.stride_tricks.sliding_window_view(x, taps)  # a view, not a copy
        # Outputs that are `up` apart have the same weights, and inputs that are `down` apart.
        for k in range(min(up, count)):
            middle, phase = divmod((first + k) * down, up)
            if table is None and k % group_size == 0:
                phases = (first + np.arange(k, min(k + group_size, up, count))) * down % up
                group = _weights(phases, up, down, side)
            weights = group[k % group_size] if table is None else table[phase]
            size = -(-(count - k) // up)  # rounded up
            begin = middle - side + 1 - start
            rows = windows[begin : begin + (size - 1) * down + 1 : down]
            y[first + k : first + count : up] = rows @ weights
    return y


@cache
def _window() -> tuple[Array, Array]:
    """Computes the Kaiser window from its middle to its end.

    It has so many points that linear interpolation between them is right to 1e-8 of the middle.

    Returns:
        Distances from the middle, 0 … 1, and the values there.
    """
    distances = np.linspace(0, 1, 1 << 15)
    return distances, np.i0(0.1102 * (STOP - 8.7) * np.sqrt(1 - distances**2))


@lru_cache(maxsize=4)
def _table(up: int, down: int, side: int) -> Array:
    """Returns the weights of all phases; arguments as of `_weights`."""
    return _weights(np.arange(up), up, down, side)


def _weights(phases: Array, up: int, down: int, side: int) -> Array:
    """Computes the weights of the 2 × side samples around output times.

    Args:
        phases: times after the middle sample, in units of 1 / up samples.
        up, down: rates in lowest terms.
        side: number of samples on each side.

    Returns:
        float64 (phases, 2 × side); each row has the sum 1.
    """
    time = np.arange(1 - side, side + 1) - phases[:, None] / up
    scale = min(1.0, up / down)  # zero crossings in a sample
    window = np.interp(abs(time) * (scale / CROSSINGS), *_window(), right=0)
    weights = np.sinc(time * (scale * (1 - TRANSITION / 2))) * window
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
