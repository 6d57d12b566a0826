"""DEPTHWISE_CONV_2D: each channel of NHWC images with M filters of its own.

x (N, H, W, C)    w (1, KH, KW, C·M)    b (C·M,) or absent    y (N, OH, OW, C·M)

y[…, cM+m] = Σᵢⱼ window(x)[i, j, c] w[i, j, cM+m] + b
dw[i, j, cM+m] = Σ window(x)[i, j, c] dy[…, cM+m]      db = Σ dy
dx: for each phase (kernels/window.py), windows of dy with the taps of that phase, summed over m.

M follows from the shapes: files are known to say something else in depth_multiplier. Source:
DepthwiseConv2DOptions in the TFLite schema.

Over 150 lines because each kernel has a short form for M = 1.
"""

from typing import Any

import numpy as np

from odt.errors import ShapeError
from odt.kernels.columns import Source, fitting_images, image_tiles
from odt.kernels.convolution import ConvAttrs, back_geometry, conv_attrs, geometry, grad_b
from odt.kernels.native import depthwise
from odt.kernels.native.elementwise import COLUMN_SUMS
from odt.kernels.opdef import SUMS, Array, Kernel, OpDef, Specs, TensorSpec
from odt.kernels.window import Axis, Phase, windows


def infer(attrs: ConvAttrs, s: Specs) -> Specs:
    x, w = s["x"], s["w"]
    if (
        len(x.shape) != 4
        or len(w.shape) != 4
        or w.shape[0] != 1
        or not x.shape[3]
        or w.shape[3] % x.shape[3]
        or x.dtype != w.dtype
    ):
        raise ShapeError(f"x must be (N, H, W, C) and w (1, KH, KW, C·M), but got x {x}, w {w}")
    if "b" in s and s["b"] != TensorSpec(w.shape[3:], w.dtype):
        raise ShapeError(f"b must be {w.shape[3:]} {w.dtype}, but got {s['b']}")
    h, v = attrs.axes(x, w)
    return {"y": TensorSpec((x.shape[0], h.out, v.out, w.shape[3]), x.dtype)}


def room(source: Source, dtype: np.dtype[Any]) -> Specs:
    """A tile's images with their border, where there is one."""
    if not source.is_padded:
        return {}
    return {"padded": source.padded(fitting_images(source, dtype.itemsize), dtype)}


def scratch(attrs: ConvAttrs, s: Specs) -> Specs:
    return room(geometry(attrs, s)["source"], s["x"].dtype)


def by_filter(a: Array, channels: int) -> Array:
    """(…, C·M) as (…, C, M)."""
    return a.reshape(*a.shape[:-1], channels, -1, copy=False)


def forward(
    attrs: ConvAttrs,
    *,
    x: Array,
    w: Array,
    y: Array,
    axes: tuple[Axis, Axis],
    source: Source,
    b: Array | None = None,
    padded: Array | None = None,
) -> None:
    h, v = (a.reading for a in axes)
    channels = x.shape[3]
    taps, one = by_filter(w[0], channels), w.shape[3] == channels
    for images, inside in image_tiles(x, source, padded):
        view, out = windows(inside, h, v), y[images]
        if one:
            np.einsum("nhwijc,ijc->nhwc", view, w[0], out=out)
        else:
            np.einsum("nhwijc,ijcm->nhwcm", view, taps, out=by_filter(out, channels))
        if b is not None:
            np.add(out, b, out=out)


def filter_scratch(attrs: ConvAttrs, s: Specs) -> Specs:
    return {**scratch(attrs, s), "part": TensorSpec(s["w"].shape[3:], s["w"].dtype)}


def grad_w(
    attrs: ConvAttrs,
    *,
    dy: Array,
    x: Array,
    dw: Array,
    axes: tuple[Axis, Axis],
    source: Source,
    part: Array,
    padded: Array | None = None,
) -> None:
    h, v = (a.reading for a in axes)
    channels = x.shape[3]
    one, sums = dw.shape[3] == channels, by_filter(part, channels)
    dw.fill(0)
    for images, inside in image_tiles(x, source, padded):
        view, dy_tile = windows(inside, h, v), dy[images]
        for i in range(h.taps):
            for j in range(v.taps):
                tap = view[:, :, :, i, j]
                if one:
                    np.einsum("nhwc,nhwc->c", tap, dy_tile, out=part)
                else:
                    np.einsum("nhwc,nhwcm->cm", tap, by_filter(dy_tile, channels), out=sums)
                np.add(dw[0, i, j], part, out=dw[0, i, j])


def back_scratch(attrs: ConvAttrs, s: Specs) -> Specs:
    found = room(back_geometry(attrs, s)["source"], s["dy"].dtype)
    return {**found, "filters": TensorSpec((s["w"].size,), s["w"].dtype)}


def grad_x(
    attrs: ConvAttrs,
    *,
    dy: Array,
    w: Array,
    dx: Array,
    axes: tuple[Axis, Axis],
    source: Source,
    pairs: tuple[tuple[Phase, Phase], ...],
    filters: Array,
    padded: Array | None = None,
) -> None:
    h, v = axes
    channels = dx.shape[3]
    one = w.shape[3] == channels
    for a, b in pairs:
        if not a.taps or not b.taps:
            dx[:, a.first :: h.stride, b.first :: v.stride] = 0
    for images, inside in image_tiles(dy, source, padded):
        for a, b in pairs:
            if not a.taps or not b.taps:
                continue
            taps = filters[: len(a.taps) * len(b.taps) * w.shape[3]]
            taps = taps.reshape(len(a.taps), len(b.taps), w.shape[3], copy=False)
            for i, k in enumerate(a.taps):
                for j, m in enumerate(b.taps):
                    np.copyto(taps[i, j], w[0, k, m])
            view = windows(inside, a.reading, b.reading)
            out = dx[images, a.first :: h.stride, b.first :: v.stride]
            if one:
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
        "b": Kernel(grad_b, reads=("dy",), writes=("db",), compiled=COLUMN_SUMS, finish=SUMS),
    },
    attrs=conv_attrs,
    flops=flops,
)
