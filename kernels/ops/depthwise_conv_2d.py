"""DEPTHWISE_CONV_2D: convolution of each channel of NHWC images with its own M filters.

x (N, H, W, C)    w (1, KH, KW, C·M)    b (C·M,) or absent    y (N, OH, OW, C·M)

y[…, cM+m] = Σᵢⱼ window(x)[i, j, c] w[i, j, cM+m] + b
dw[i, j, cM+m] = Σ window(x)[i, j, c] dy[…, cM+m]      db = Σ dy
dx: for each stride phase (kernels/geometry/window.py), windows of dy with its taps, summed over m.

M is computed from the shapes, because depth_multiplier is wrong in some files. Source:
DepthwiseConv2DOptions in the TFLite schema.

For M = 1, a row of windows is treated as one window (kernels/geometry/row_windows.py) if that makes
loops longer.
"""

from typing import Any

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.bias import GRAD_B
from odt.kernels.geometry.conv_geometry import (
    Axes,
    ConvAttrs,
    Pairs,
    back_geometry,
    conv_attrs,
    geometry,
)
from odt.kernels.geometry.im2col import PaddedImages, fitting_images, image_tiles
from odt.kernels.geometry.row_windows import joined, joined_windows, joins, repeat_filters
from odt.kernels.geometry.window import windows
from odt.kernels.native import depthwise
from odt.kernels.rows.opdef import Arithmetic, Array, Kernel, OpDef, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import Layer, QuantizedDef


def infer(attrs: ConvAttrs, s: Specs) -> Specs:
    x, w = s["x"], s["w"]
    if (
        len(x.shape) != 4
        or len(w.shape) != 4
        or w.shape[0] != 1
        or not w.size
        or not x.shape[3]
        or w.shape[3] % x.shape[3]
        or x.dtype != w.dtype
    ):
        raise ShapeError(
            f"x must be (N, H, W, C) and w (1, KH, KW, C·M), w not empty, but got x {x}, w {w}"
        )
    if "b" in s and s["b"] != TensorSpec(w.shape[3:], w.dtype):
        raise ShapeError(f"b must be {w.shape[3:]} {w.dtype}, but got {s['b']}")
    h, v = attrs.axes(x, w)
    return {"y": TensorSpec((x.shape[0], h.out, v.out, w.shape[3]), x.dtype)}


def padded_images(source: PaddedImages, dtype: np.dtype[Any]) -> dict[str, TensorSpec]:
    """Returns the workspace for the padded images of a tile; none without padding."""
    if not source.is_padded:
        return {}
    return {"padded": source.padded(fitting_images(source, dtype.itemsize), dtype)}


def by_filter(a: Array, channels: int) -> Array:
    """Reshapes (…, C·M) to (…, C, M)."""
    return a.reshape(*a.shape[:-1], channels, -1, copy=False)


def scratch(attrs: ConvAttrs, s: Specs) -> Specs:
    """Returns the workspace: padded images, and the filters of a joined row."""
    (_, v), source = geometry(attrs, s).values()
    specs = padded_images(source, s["x"].dtype)
    if joins(v.reading, source.channels, s["w"].shape[3]):
        specs["filters"] = TensorSpec((s["w"].size * v.out,), s["w"].dtype)
    return specs


def forward(
    attrs: ConvAttrs,
    *,
    x: Array,
    w: Array,
    y: Array,
    axes: Axes,
    source: PaddedImages,
    b: Array | None = None,
    filters: Array | None = None,
    padded: Array | None = None,
) -> None:
    h, v = (a.reading for a in axes)
    row_filters = w[0] if filters is None else repeat_filters(w[0], v.count, filters)
    for images, inside in image_tiles(x, source, padded):
        view, out = windows(inside, h, v), y[images]
        if filters is not None:
            np.einsum("nhwijc,ijc->nhwc", joined_windows(view), row_filters, out=joined(out))
        elif w.shape[3] == source.channels:
            np.einsum("nhwijc,ijc->nhwc", view, row_filters, out=out)
        else:
            taps, results = (by_filter(a, source.channels) for a in (row_filters, out))
            np.einsum("nhwijc,ijcm->nhwcm", view, taps, out=results)
        if b is not None:
            np.add(out, b, out=out)


def filter_scratch(attrs: ConvAttrs, s: Specs) -> Specs:
    """Returns the workspace: padded images, and sums of a tap over a tile and a joined row."""
    (_, v), source = geometry(attrs, s).values()
    units, dtype = s["w"].shape[3], s["w"].dtype
    specs = {**padded_images(source, dtype), "part": TensorSpec((units,), dtype)}
    if joins(v.reading, source.channels, units):
        specs["row"] = TensorSpec((v.out * units,), dtype)
    return specs


def grad_w(
    attrs: ConvAttrs,
    *,
    dy: Array,
    x: Array,
    dw: Array,
    axes: Axes,
    source: PaddedImages,
    part: Array,
    row: Array | None = None,
    padded: Array | None = None,
) -> None:
    h, v = (a.reading for a in axes)
    dw.fill(0)
    for images, inside in image_tiles(x, source, padded):
        view, dy_tile = windows(inside, h, v), dy[images]
        if row is not None:
            view, dy_tile = joined_windows(view), joined(dy_tile)
        for i in range(h.taps):
            for j in range(v.taps):
                tap = view[:, :, :, i, j]
                if row is not None:
                    np.einsum("nhwc,nhwc->c", tap, dy_tile, out=row)
                    np.sum(row.reshape(v.count, -1, copy=False), axis=0, out=part)
                elif source.channels == part.size:
                    np.einsum("nhwc,nhwc->c", tap, dy_tile, out=part)
                else:
                    results, sums = (by_filter(a, source.channels) for a in (dy_tile, part))
                    np.einsum("nhwc,nhwcm->cm", tap, results, out=sums)
                np.add(dw[0, i, j], part, out=dw[0, i, j])


def back_scratch(attrs: ConvAttrs, s: Specs) -> Specs:
    """Returns the workspace: padded images, filters of a joined row, and strided results."""
    _, source, pairs = back_geometry(attrs, s).values()
    dtype, channels = s["dy"].dtype, s["dx"].shape[3]
    specs = padded_images(source, dtype)
    is_strided = max(attrs.stride) > 1
    if is_strided and "padded" not in specs:
        return specs  # one tile of all images: results would grow with the batch
    joined_pairs = [(a, b) for a, b in pairs if joins(b.reading, channels, s["w"].shape[3])]
    if joined_pairs:
        cols = max(b.reading.count for _, b in joined_pairs)
        specs["filters"] = TensorSpec((s["w"].size * cols,), dtype)
    if joined_pairs and is_strided:
        size = max(a.reading.count * b.reading.count for a, b in joined_pairs) * channels
        specs["result"] = TensorSpec((specs["padded"].shape[0] * size,), dtype)
    return specs


def grad_x(
    attrs: ConvAttrs,
    *,
    dy: Array,
    w: Array,
    dx: Array,
    axes: Axes,
    source: PaddedImages,
    pairs: Pairs,
    filters: Array | None = None,
    result: Array | None = None,
    padded: Array | None = None,
) -> None:
    h, v = axes
    channels = dx.shape[3]
    for a, b in pairs:
        if not a.taps or not b.taps:
            dx[:, a.first :: h.stride, b.first :: v.stride] = 0
    for images, inside in image_tiles(dy, source, padded):
        for a, b in pairs:
            if not a.taps or not b.taps:
                continue
            taps = w[0, a.slice, b.slice]
            view = windows(inside, a.reading, b.reading)
            out = dx[images, a.first :: h.stride, b.first :: v.stride]
            if filters is not None:
                target = out
                if result is not None:
                    target = result[: out.size].reshape(out.shape, copy=False)
                row_filters = repeat_filters(taps, b.reading.count, filters)
                np.einsum("nhwijc,ijc->nhwc", joined_windows(view), row_filters, out=joined(target))
                if result is not None:
                    np.copyto(out, target)
            elif w.shape[3] == channels:
                np.einsum("nhwijc,ijc->nhwc", view, taps, out=out)
            else:
                pair = by_filter(view, channels), by_filter(taps, channels)
                np.einsum("nhwijcm,ijcm->nhwc", *pair, out=out)


def flops(attrs: ConvAttrs, s: Specs) -> int:
    return 2 * s["y"].size * (s["w"].size // s["w"].shape[3])


OP = OpDef(
    "DEPTHWISE_CONV_2D",
    inputs=("x", "w", "b?"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x", "w", "b?"),
        writes=("y",),
        workspace=scratch,
        prepare=geometry,
        compiled=depthwise.FORWARD,
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "w"),
            writes=("dx",),
            workspace=back_scratch,
            prepare=back_geometry,
            compiled=depthwise.GRAD_X,
        ),
        "w": Kernel(
            grad_w,
            reads=("dy", "x"),
            writes=("dw",),
            workspace=filter_scratch,
            prepare=geometry,
            compiled=depthwise.GRAD_W,
        ),
        "b": GRAD_B,
    },
    attrs=conv_attrs,
    flops=flops,
    arithmetic=Arithmetic.DEPTHWISE,
    quantized=QuantizedDef(
        versions={"INT8": 3, "INT16": 5},
        int8=True,
        int16=True,
        hybrid=("int8",),
        layers=(Layer(x=0, w=1, b=2, axis=3),),
        needs_scale=True,
        implies_activation=True,
        pads_input=True,
    ),
)
