"""Rows of windows as one window each, for depthwise sums.

With stride 1 and filters that do not mix channels, neighbouring windows of a row read
neighbouring values: a row of W windows of C channels is one window of W · C channels, if the
filters are written W times beside each other. NumPy's inner loops are then W times longer.
"""

import numpy as np

from odt.kernels.geometry.window import Reading
from odt.kernels.opdef import Array

LONG = 256  # channels from which a loop over them is long enough


def joins(w: Reading, channels: int, units: int) -> bool:
    """Whether a row of windows of so many channels and units is treated as one window."""
    return w.stride == 1 and channels == units < LONG


def joined(a: Array) -> Array:
    """(N, H, W, C), its rows without gaps, as (N, H, 1, W · C)."""
    return a.reshape(*a.shape[:2], 1, -1, copy=False)


def joined_windows(view: Array) -> Array:
    """Windows (N, H, W, KH, KW, C) as (N, H, 1, KH, KW, W · C)."""
    n, rows, cols, h_taps, w_taps, channels = view.shape
    shape = n, rows, 1, h_taps, w_taps, cols * channels
    return np.lib.stride_tricks.as_strided(view, shape, view.strides)


def spread(filters: Array, cols: int, room: Array) -> Array:
    """Filters (KH, KW, C), written W times beside each other: (KH, KW, W · C)."""
    h_taps, w_taps, channels = filters.shape
    wide = room[: filters.size * cols].reshape(h_taps, w_taps, cols, channels, copy=False)
    np.copyto(wide, filters[:, :, None])
    return wide.reshape(h_taps, w_taps, -1, copy=False)
