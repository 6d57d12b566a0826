"""Descriptors of the windows that compiled kernels read, and of the results they write."""

import ctypes
from collections.abc import Sequence
from functools import lru_cache

from odt.kernels.geometry.im2col import PaddedImages
from odt.kernels.geometry.window import Axis, StridePhase
from odt.kernels.native.float32 import VECTOR
from odt.kernels.native.library import limit
from odt.kernels.native.structs import WindowWalk
from odt.kernels.rows.opdef import Array

Taps = tuple[tuple[int, int], ...]
# Fields of images, which are volumes of one plane.
ONE_PLANE = {"planes": 1, "planes_out": 1, "stride_d": 1}


def window_walk(
    row_taps: Sequence[tuple[int, int]],
    col_taps: Sequence[tuple[int, int]],
    plane_taps: Sequence[tuple[int, int]] = ((0, 0),),
    /,
    **sizes: int,
) -> WindowWalk:
    """Returns the struct, from sizes and, for each tap, the offsets of input and weights.

    It holds no addresses of arrays: programs and layers of the same geometry share it.
    """
    return _window_walk(tuple(row_taps), tuple(col_taps), tuple(plane_taps), **sizes)


@lru_cache(maxsize=1024)
def _window_walk(row_taps: Taps, col_taps: Taps, plane_taps: Taps, **sizes: int) -> WindowWalk:
    lists = [
        (ctypes.c_int64 * len(taps))(*(t[k] for t in taps))
        for taps in (row_taps, col_taps, plane_taps)
        for k in (0, 1)
    ]
    axes = ("row", "col", "plane")
    names = [f"{axis}_{of}" for axis in axes for of in ("taps", "weights")]
    walk = WindowWalk(
        taps_h=len(row_taps),
        taps_w=len(col_taps),
        taps_d=len(plane_taps),
        **ONE_PLANE | sizes,
        **dict(zip(names, map(ctypes.addressof, lists), strict=True)),
    )
    walk.lists = lists
    return walk


def reads_volumes(walk: WindowWalk) -> bool:
    """Whether windows have several planes, or one that may be outside."""
    return (walk.planes, walk.planes_out, walk.taps_d, walk.start_d) != (1, 1, 1, 0)


def changed(walk: WindowWalk, **fields: int) -> WindowWalk:
    """Returns a descriptor with other values of some fields."""
    copy = WindowWalk.from_buffer_copy(walk)
    for name, value in fields.items():
        setattr(copy, name, value)
    copy.lists = walk.lists
    return copy


def units_of(walk: WindowWalk, units: int) -> WindowWalk:
    """Returns a descriptor of the same windows for some of the units, side by side."""
    return walk if units == walk.units else changed(walk, units=units)


def tiled(walk: WindowWalk) -> WindowWalk:
    """Returns a descriptor of the same windows, for tiles of 2×2 results: src/winograd.h."""
    return changed(walk, tiled=1)


# Fields of the two axes.
PAIRS = (
    ("rows", "cols"),
    ("height", "width"),
    ("row_stride", "col_stride"),
    ("start_h", "start_w"),
    ("stride_h", "stride_w"),
    ("out_row", "out_col"),
    ("taps_h", "taps_w"),
    ("row_taps", "col_taps"),
    ("row_weights", "col_weights"),
)


def along_longer_axis(walk: WindowWalk) -> WindowWalk:
    """Returns a descriptor of the same windows, column by column if columns are longer than rows.

    Bands of results must be whole images: their results are one block of memory in either order.
    Few channels are not turned, since vectors are filled along a row.
    """
    has_few_channels = 2 * walk.depth <= VECTOR
    if has_few_channels or walk.rows <= walk.cols or walk.rows * walk.cols > limit("BAND"):
        return walk
    turned = WindowWalk.from_buffer_copy(walk)
    for a, b in PAIRS:
        setattr(turned, a, getattr(walk, b))
        setattr(turned, b, getattr(walk, a))
    turned.lists = walk.lists
    return turned


def images(a: Array) -> tuple[int, int, int, int]:
    """Returns the shape (N, H, W, C)."""
    n, h, w, c = a.shape
    return n, h, w, c


def reading(a: Array) -> dict[str, int]:
    """Returns the fields that describe the images that are read."""
    n, h, w, c = images(a)
    return {
        "images": n,
        "depth": c,
        "image_stride": h * w * c,
        "row_stride": w * c,
        "col_stride": c,
        "height": h,
        "width": w,
    }


def weights(w: Array, *, forward: bool) -> dict[str, int]:
    """Returns the strides of filters (O, KH, KW, C): depth is C forward and O backward."""
    whole = w.size // w.shape[0]
    depth, unit = (1, whole) if forward else (whole, 1)
    return {"depth_stride": depth, "unit_stride": unit}


def taps(a: Axis, weight: int) -> list[tuple[int, int]]:
    return [(k * a.dilation, k * weight) for k in range(a.kernel)]


def results(y: Array, axes: tuple[Axis, Axis]) -> dict[str, int]:
    """Returns the fields that describe the first forward window and the results."""
    h, v = axes
    _, rows, cols, units = images(y)
    return {
        "rows": rows,
        "cols": cols,
        "units": units,
        "start_h": -h.lo,
        "stride_h": h.stride,
        "start_w": -v.lo,
        "stride_w": v.stride,
        "out_image": rows * cols * units,
        "out_row": cols * units,
        "out_col": units,
    }


def forward_walk(
    x: Array, w: Array, y: Array, axes: tuple[Axis, Axis], *, transposed: bool = False
) -> WindowWalk:
    """Returns the descriptor of the windows of x and the results y.

    Args:
        transposed: whether filters are (depth, KH, KW, units), not (units, KH, KW, depth).
    """
    row_taps, col_taps = taps(axes[0], w.shape[2] * w.shape[3]), taps(axes[1], w.shape[3])
    return window_walk(
        row_taps, col_taps, **reading(x), **weights(w, forward=not transposed), **results(y, axes)
    )


def phase_taps(p: StridePhase, weight: int) -> list[tuple[int, int]]:
    return [(t * p.reading.dilation, k * weight) for t, k in enumerate(p.taps)]


def backward_walk(
    dy: Array,
    w: Array,
    dx: Array,
    strides: tuple[int, int],
    border: tuple[int, int],
    pair: tuple[StridePhase, StridePhase],
    *,
    transposed: bool = False,
) -> WindowWalk:
    """Returns the descriptor of the windows of dy and one stride phase of dx.

    Args:
        border: zeros before dy, in the coordinates of the phase's `reading`.
        transposed: whether filters are (units, KH, KW, depth), not (depth, KH, KW, units).
    """
    a, b = pair
    _, height, width, units = images(dx)
    return window_walk(
        phase_taps(a, w.shape[2] * w.shape[3]),
        phase_taps(b, w.shape[3]),
        **reading(dy),
        **weights(w, forward=transposed),
        rows=a.reading.count,
        cols=b.reading.count,
        units=units,
        start_h=a.reading.start - border[0],
        stride_h=1,
        start_w=b.reading.start - border[1],
        stride_w=1,
        out_start=(a.first * width + b.first) * units,
        out_image=height * width * units,
        out_row=strides[0] * width * units,
        out_col=strides[1] * units,
    )


def phase_walks(
    dy: Array,
    w: Array,
    dx: Array,
    axes: tuple[Axis, Axis],
    source: PaddedImages,
    pairs: Sequence[tuple[StridePhase, StridePhase]],
    *,
    transposed: bool = False,
) -> list[WindowWalk]:
    """Returns a descriptor for each stride phase of dx; `transposed` as for backward_walk."""
    strides, border = (axes[0].stride, axes[1].stride), (source.h[0], source.w[0])
    return [
        backward_walk(dy, w, dx, strides, border, pair, transposed=transposed) for pair in pairs
    ]
