"""Convolution by im2col: forward, input gradient and filter gradient, shared by operators.

Each of the three makes one matrix product for each tile of columns (kernels/geometry/im2col.py).
CONV_2D and TRANSPOSE_CONV use them in different roles, so they are named after what they compute:
`correlate`, `sum_phases`, `filter_sums`.
"""

from typing import Any

import numpy as np

from odt.errors import ShapeError
from odt.kernels.geometry.conv_geometry import Axes, Pairs
from odt.kernels.geometry.im2col import PaddedImages, column_size, tiles, tiling
from odt.kernels.rows.opdef import Array, Specs, TensorSpec


def checked(s: Specs) -> tuple[TensorSpec, TensorSpec]:
    """Returns the specs of x and w, after a check of x, w and b.

    Raises:
        ShapeError: if the inputs do not match.
    """
    x, w = s["x"], s["w"]
    fits = len(x.shape) == len(w.shape) == 4 and x.shape[3] == w.shape[3] and x.dtype == w.dtype
    if not fits or not w.size:
        raise ShapeError(
            "x must be (N, H, W, C) and w (O, KH, KW, C) with one C, w not empty, "
            f"but got x {x}, w {w}"
        )
    if "b" in s and s["b"] != TensorSpec(w.shape[:1], w.dtype):
        raise ShapeError(f"b must be {w.shape[:1]} {w.dtype}, but got {s['b']}")
    return x, w


def window_scratch(axes: Axes, source: PaddedImages, dtype: np.dtype[Any]) -> dict[str, TensorSpec]:
    """Returns the workspace of `correlate`: the columns of a tile, and its padded images."""
    h, v = (a.reading for a in axes)
    size = column_size(source, h, v, dtype.itemsize)
    specs = {"columns": TensorSpec((size,), dtype)}
    if source.is_padded:
        specs["padded"] = source.padded(tiling(source, h, v, dtype.itemsize).images, dtype)
    return specs


def correlate(
    x: Array,
    w: Array,
    y: Array,
    b: Array | None,
    *,
    axes: Axes,
    source: PaddedImages,
    columns: Array,
    padded: Array | None = None,
) -> None:
    """Computes y = windows of x times w, plus b.

    Args:
        x: (N, H, W, C).
        w: (KH·KW·C, O).
        y: (N, OH, OW, O).
        b: (O,), or None.
        axes, source: as returned by `geometry`.
        columns, padded: workspace, as returned by `window_scratch`.
    """
    h, v = (a.reading for a in axes)
    for images, rows, tile in tiles(x, source, h, v, padded, columns):
        out = y[images, rows].reshape(-1, w.shape[1], copy=False)
        np.matmul(tile, w, out=out)
        if b is not None:
            np.add(out, b, out=out)


def filter_sums(
    dy: Array,
    x: Array,
    dw: Array,
    *,
    axes: Axes,
    source: PaddedImages,
    columns: Array,
    part: Array,
    padded: Array | None = None,
) -> None:
    """Computes dw = dyᵀ times windows of x, tile by tile.

    Args:
        dy: (N, OH, OW, O).
        x: (N, H, W, C).
        dw, part: (O, KH, KW, C); the result, and workspace for the product of a tile.
        axes, source, columns, padded: as for `correlate`.
    """
    units = dy.shape[3]
    h, v = (a.reading for a in axes)
    total, product = (a.reshape(units, -1, copy=False) for a in (dw, part))
    first = True
    for images, rows, tile in tiles(x, source, h, v, padded, columns):
        dy2 = dy[images, rows].reshape(-1, units, copy=False)
        np.matmul(dy2.T, tile, out=total if first else product)
        if not first:
            np.add(total, product, out=total)
        first = False


def phase_scratch(
    source: PaddedImages, pairs: Pairs, units: int, channels: int, dtype: np.dtype[Any]
) -> dict[str, TensorSpec]:
    """Returns the workspace of `sum_phases`, for the largest tile."""
    size, images, results, taps = 0, 1, 0, 1
    for a, b in pairs:
        if not a.taps or not b.taps:
            continue  # dx is 0 for this phase
        tile = tiling(source, a.reading, b.reading, dtype.itemsize)
        size = max(size, column_size(source, a.reading, b.reading, dtype.itemsize))
        images = max(images, tile.images)
        results = max(results, tile.images * tile.rows * b.reading.count)
        taps = max(taps, len(a.taps) * len(b.taps))
    specs = {
        "columns": TensorSpec((size,), dtype),
        "filters": TensorSpec((taps * units * channels,), dtype),
        "result": TensorSpec((results * channels,), dtype),
    }
    if source.is_padded:
        specs["padded"] = source.padded(images, dtype)
    return specs


def sum_phases(
    dy: Array,
    w: Array,
    dx: Array,
    *,
    axes: Axes,
    source: PaddedImages,
    pairs: Pairs,
    columns: Array,
    filters: Array,
    result: Array,
    padded: Array | None = None,
) -> None:
    """Computes dx[i] = Σ dy[o] w[k] over outputs o and taps k that read input i, by stride phase.

    Args:
        dy: (N, OH, OW, O).
        w: (KH, KW, O, C), in any memory order.
        dx: (N, H, W, C).
        axes, source, pairs: as returned by `back_geometry`.
        columns, filters, result, padded: workspace, as returned by `phase_scratch`.
    """
    h, v = axes
    units, channels = w.shape[2:]
    for a, b in pairs:
        into = dx[:, a.first :: h.stride, b.first :: v.stride]
        if not a.taps or not b.taps:
            into[...] = 0
            continue
        taps = filters[: len(a.taps) * len(b.taps) * units * channels]
        taps = taps.reshape(len(a.taps), len(b.taps), units, channels, copy=False)
        for i, k in enumerate(a.taps):
            for j, m in enumerate(b.taps):
                np.copyto(taps[i, j], w[k, m])
        flat = taps.reshape(-1, channels, copy=False)
        for images, rows, tile in tiles(dy, source, a.reading, b.reading, padded, columns):
            out = into[images, rows]
            if out.flags.c_contiguous:
                np.matmul(tile, flat, out=out.reshape(-1, channels, copy=False))
                continue
            products = result[: len(tile) * channels].reshape(-1, channels, copy=False)
            np.matmul(tile, flat, out=products)
            np.copyto(out, products.reshape(out.shape, copy=False))
