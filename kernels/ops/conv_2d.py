"""CONV_2D: cross-correlation of NHWC images with OHWI filters.

x (N, H, W, C)    w (O, KH, KW, C)    b (O,) or absent    y (N, OH, OW, O)

With the windows of x as columns (N·OH·OW, KH·KW·C), and w seen as (O, KH·KW·C):
y = columns wᵀ + b      dw = dyᵀ columns      db = Σ dy
dx: for each phase (kernels/window.py), windows of dy as columns times the taps of that phase.

A 1×1 convolution with stride 1 is a product of x itself. Backward makes the columns again: x is
there anyway, and columns are KH·KW times larger. Source: Conv2DOptions in the TFLite schema.

Over 150 lines because each of its three kernels walks over tiles of columns.
"""

import numpy as np

from odt.errors import ShapeError
from odt.kernels.columns import Source, column_size, tiles, tiling
from odt.kernels.convolution import ConvAttrs, back_geometry, conv_attrs, geometry, grad_b
from odt.kernels.opdef import Array, Kernel, OpDef, Specs, TensorSpec
from odt.kernels.window import Axis, Phase


def infer(attrs: ConvAttrs, s: Specs) -> Specs:
    x, w = s["x"], s["w"]
    if len(x.shape) != 4 or len(w.shape) != 4 or x.shape[3] != w.shape[3] or x.dtype != w.dtype:
        raise ShapeError(
            f"x must be (N, H, W, C) and w (O, KH, KW, C) with one C, but got x {x}, w {w}"
        )
    if "b" in s and s["b"] != TensorSpec(w.shape[:1], w.dtype):
        raise ShapeError(f"b must be {w.shape[:1]} {w.dtype}, but got {s['b']}")
    h, v = attrs.axes(x, w)
    return {"y": TensorSpec((x.shape[0], h.out, v.out, w.shape[0]), x.dtype)}


def is_product(h: Axis, v: Axis) -> bool:
    """1×1 with stride 1: nothing to gather."""
    return h.kernel == v.kernel == h.stride == v.stride == 1


def scratch(attrs: ConvAttrs, s: Specs) -> Specs:
    """One tile's columns, and its images with their border."""
    (h, v), source = geometry(attrs, s).values()
    dtype = s["x"].dtype
    if is_product(h, v):
        return {}
    found = {
        "columns": TensorSpec((column_size(source, h.reading, v.reading, dtype.itemsize),), dtype)
    }
    if source.is_padded:
        images = tiling(source, h.reading, v.reading, dtype.itemsize).images
        found["padded"] = source.padded(images, dtype)
    return found


def forward(
    attrs: ConvAttrs,
    *,
    x: Array,
    w: Array,
    y: Array,
    axes: tuple[Axis, Axis],
    source: Source,
    b: Array | None = None,
    columns: Array | None = None,
    padded: Array | None = None,
) -> None:
    units = w.shape[0]
    w2 = w.reshape(units, -1, copy=False)
    if columns is None:
        flat = y.reshape(-1, units, copy=False)
        np.matmul(x.reshape(-1, x.shape[3], copy=False), w2.T, out=flat)
        if b is not None:
            np.add(flat, b, out=flat)
        return
    h, v = axes
    for images, rows, tile in tiles(x, source, h.reading, v.reading, padded, columns):
        out = y[images, rows].reshape(-1, units, copy=False)
        np.matmul(tile, w2.T, out=out)
        if b is not None:
            np.add(out, b, out=out)


def filter_scratch(attrs: ConvAttrs, s: Specs) -> Specs:
    found = scratch(attrs, s)
    return {**found, "part": s["w"]} if found else found


def grad_w(
    attrs: ConvAttrs,
    *,
    dy: Array,
    x: Array,
    dw: Array,
    axes: tuple[Axis, Axis],
    source: Source,
    columns: Array | None = None,
    part: Array | None = None,
    padded: Array | None = None,
) -> None:
    units = dw.shape[0]
    dw2 = dw.reshape(units, -1, copy=False)
    if columns is None or part is None:
        dy2 = dy.reshape(-1, units, copy=False)
        np.matmul(dy2.T, x.reshape(-1, x.shape[3], copy=False), out=dw2)
        return
    h, v = axes
    part2 = part.reshape(units, -1, copy=False)
    first = True
    for images, rows, tile in tiles(x, source, h.reading, v.reading, padded, columns):
        dy2 = dy[images, rows].reshape(-1, units, copy=False)
        np.matmul(dy2.T, tile, out=dw2 if first else part2)
        if not first:
            np.add(dw2, part2, out=dw2)
        first = False


Pair = tuple[Phase, Phase]


def back_scratch(attrs: ConvAttrs, s: Specs) -> Specs:
    (h, v), source, pairs = back_geometry(attrs, s).values()
    dtype = s["dy"].dtype
    if is_product(h, v):
        return {}
    units, _, _, channels = s["w"].shape
    size, images, results, taps = 0, 1, 0, 1
    for a, b in pairs:
        tile = tiling(source, a.reading, b.reading, dtype.itemsize)
        size = max(size, column_size(source, a.reading, b.reading, dtype.itemsize))
        images = max(images, tile.images)
        results = max(results, tile.images * tile.rows * b.reading.count)
        taps = max(taps, len(a.taps) * len(b.taps))
    found = {
        "columns": TensorSpec((size,), dtype),
        "filters": TensorSpec((taps * units * channels,), dtype),
        "result": TensorSpec((results * channels,), dtype),
    }
    if source.is_padded:
        found["padded"] = source.padded(images, dtype)
    return found


def grad_x(
    attrs: ConvAttrs,
    *,
    dy: Array,
    w: Array,
    dx: Array,
    axes: tuple[Axis, Axis],
    source: Source,
    pairs: tuple[Pair, ...],
    columns: Array | None = None,
    filters: Array | None = None,
    result: Array | None = None,
    padded: Array | None = None,
) -> None:
    units, _, _, channels = w.shape
    if columns is None or filters is None or result is None:
        dx2 = dx.reshape(-1, channels, copy=False)
        np.matmul(dy.reshape(-1, units, copy=False), w.reshape(units, -1, copy=False), out=dx2)
        return
    h, v = axes
    for a, b in pairs:
        into = dx[:, a.first :: h.stride, b.first :: v.stride]
        if not a.taps or not b.taps:
            into[...] = 0
            continue
        taps = filters[: len(a.taps) * len(b.taps) * units * channels]
        taps = taps.reshape(len(a.taps), len(b.taps), units, channels, copy=False)
        for i, k in enumerate(a.taps):
            for j, m in enumerate(b.taps):
                np.copyto(taps[i, j], w[:, k, m])
        flat = taps.reshape(-1, channels, copy=False)
        for images, rows, tile in tiles(dy, source, a.reading, b.reading, padded, columns):
            out = into[images, rows]
            if out.flags.c_contiguous:
                np.matmul(tile, flat, out=out.reshape(-1, channels, copy=False))
                continue
            made = result[: len(tile) * channels].reshape(-1, channels, copy=False)
            np.matmul(tile, flat, out=made)
            np.copyto(out, made.reshape(out.shape, copy=False))


OP = OpDef(
    "CONV_2D",
    inputs=("x", "w", "b?"),
    infer=infer,
    forward=Kernel(
        forward, reads=("x", "w", "b?"), writes=("y",), workspace=scratch, prepare=geometry
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "w"),
            writes=("dx",),
            workspace=back_scratch,
            prepare=back_geometry,
        ),
        "w": Kernel(
            grad_w,
            reads=("dy", "x"),
            writes=("dw",),
            workspace=filter_scratch,
            prepare=geometry,
        ),
        "b": Kernel(grad_b, reads=("dy",), writes=("db",)),
    },
    attrs=conv_attrs,
)
