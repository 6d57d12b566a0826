"""Treats each row of windows as one window, for depthwise sums.

With stride 1 and filters that do not mix channels, neighboring windows of a row read neighboring
values. A row of W windows with C channels is therefore one window with W · C channels, if the
filters are repeated W times. This makes NumPy's inner loops W times longer.
"""

import numpy as np

from odt.kernels.geometry.window import Reading
from odt.kernels.rows.opdef import Array

LONG = 256  # channels from which a loop over channels is long enough


def joins(w: Reading, channels: int, units: int) -> bool:
    """Whether a row of windows is treated as one window, given channels and units."""
    return w.stride == 1 and channels == units < LONG


def joined(a: Array) -> Array:
    """Reshapes (N, H, W, C), with contiguous rows, to (N, H, 1, W · C)."""
    return a.reshape(*a.shape[:2], 1, -1, copy=False)


def joined_windows(view: Array) -> Array:
    """Views windows (N, H, W, KH, KW, C) as (N, H, 1, KH, KW, W · C).

    With stride 1 the next window begins C values later, where the channels of this one end, so
    that the last axis runs over all windows of a row with its stride of one value.
    """
    n, rows, cols, h_taps, w_taps, channels = view.shape
    shape = n, rows, 1, h_taps, w_taps, cols * channels
    return np.lib.stride_tricks.as_strided(view, shape, view.strides)


def repeat_filters(filters: Array, cols: int, joined_filters: Array) -> Array:
    """Repeats filters (KH, KW, C) W times: (KH, KW, W · C)."""
    h_taps, w_taps, channels = filters.shape
    wide = joined_filters[: filters.size * cols].reshape(h_taps, w_taps, cols, channels, copy=False)
    np.copyto(wide, filters[:, :, None])
    return wide.reshape(h_taps, w_taps, -1, copy=False)
