"""CONV_2D: cross-correlation of NHWC images with OHWI filters.

x (N, H, W, C)    w (O, KH, KW, C)    b (O,) or absent    y (N, OH, OW, O)

With the windows of x as columns (N·OH·OW, KH·KW·C), and w as (O, KH·KW·C):
y = columns wᵀ + b      dw = dyᵀ columns      db = Σ dy
dx: for each stride phase (kernels/geometry/window.py), windows of dy as columns times its taps.

A 1×1 convolution with stride 1 is a product of x itself: each kernel has a second form for it.
Backward computes the columns again, because they are KH·KW times larger than x, which is saved
anyway. Source: Conv2DOptions in the TFLite schema.

Filters with fewer channels than x read groups of them: kernels/families/grouped.py.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.kernels.families.bias import GRAD_B
from odt.kernels.families.convolution import (
    checked,
    correlate,
    filter_sums,
    phase_scratch,
    sum_phases,
    window_scratch,
)
from odt.kernels.families.grouped import by_groups, copies, of_group
from odt.kernels.geometry.conv_geometry import (
    Axes,
    ConvAttrs,
    Pairs,
    back_geometry,
    conv_attrs,
    geometry,
    groups_of,
    number_of_groups,
)
from odt.kernels.geometry.im2col import PaddedImages
from odt.kernels.geometry.window import Axis
from odt.kernels.native import grouped
from odt.kernels.rows.opdef import Arithmetic, Array, Kernel, OpDef, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import Layer, QuantizedDef


def infer(attrs: ConvAttrs, s: Specs) -> Specs:
    x, w = s["x"], s["w"]
    if number_of_groups(x, w) > 1:
        s = {**s, "x": TensorSpec((*x.shape[:3], w.shape[3]), x.dtype)}
    x, w = checked(s)
    h, v = attrs.axes(x, w)
    return {"y": TensorSpec((x.shape[0], h.out, v.out, w.shape[0]), x.dtype)}


def is_product(h: Axis, v: Axis) -> bool:
    """Whether this is a 1×1 convolution with stride 1, a product without im2col."""
    return h.kernel == v.kernel == h.stride == v.stride == 1


def rows_of(a: Array) -> Array:
    """Views (N, H, W, C) as one row for each pixel."""
    return a.reshape(-1, a.shape[3], copy=False)


def window_workspace(attrs: ConvAttrs, s: Specs) -> Specs:
    axes, source = geometry(attrs, of_group(s)).values()
    return {} if is_product(*axes) else window_scratch(axes, source, s["x"].dtype)


def forward_workspace(attrs: ConvAttrs, s: Specs) -> Specs:
    return {**window_workspace(attrs, s), **copies(s, "x", "y")}


def reading(attrs: ConvAttrs, s: Specs) -> Mapping[str, Any]:
    return {**geometry(attrs, of_group(s)), "groups": groups_of(s)}


def reading_back(attrs: ConvAttrs, s: Specs) -> Mapping[str, Any]:
    return {**back_geometry(attrs, of_group(s)), "groups": groups_of(s)}


def forward(
    attrs: ConvAttrs,
    *,
    x: Array,
    w: Array,
    y: Array,
    axes: Axes,
    source: PaddedImages,
    b: Array | None = None,
    **scratch: Array,
) -> None:
    w2 = w.reshape(w.shape[0], -1, copy=False).T
    if scratch:
        correlate(x, w2, y, b, axes=axes, source=source, **scratch)
        return
    np.matmul(rows_of(x), w2, out=rows_of(y))
    if b is not None:
        np.add(y, b, out=y)


def filter_workspace(attrs: ConvAttrs, s: Specs) -> Specs:
    specs = window_workspace(attrs, s)
    part = {"part": of_group(s)["w"]} if specs else {}
    return {**specs, **part, **copies(s, "x", "dy")}


def grad_w(
    attrs: ConvAttrs,
    *,
    dy: Array,
    x: Array,
    dw: Array,
    axes: Axes,
    source: PaddedImages,
    **scratch: Array,
) -> None:
    if scratch:
        filter_sums(dy, x, dw, axes=axes, source=source, **scratch)
        return
    np.matmul(rows_of(dy).T, rows_of(x), out=dw.reshape(dw.shape[0], -1, copy=False))


def phase_workspace(attrs: ConvAttrs, s: Specs) -> Specs:
    axes, source, pairs = back_geometry(attrs, of_group(s)).values()
    images = copies(s, "dy", "dx")
    if is_product(*axes):
        return images
    units, *_, channels = of_group(s)["w"].shape
    return {**phase_scratch(source, pairs, units, channels, s["dy"].dtype), **images}


def grad_x(
    attrs: ConvAttrs,
    *,
    dy: Array,
    w: Array,
    dx: Array,
    axes: Axes,
    source: PaddedImages,
    pairs: Pairs,
    **scratch: Array,
) -> None:
    if scratch:
        filters = w.transpose(1, 2, 0, 3)
        sum_phases(dy, filters, dx, axes=axes, source=source, pairs=pairs, **scratch)
        return
    np.matmul(rows_of(dy), w.reshape(w.shape[0], -1, copy=False), out=rows_of(dx))


def flops(attrs: ConvAttrs, s: Specs) -> int:
    return 2 * s["y"].size * (s["w"].size // s["w"].shape[0])


OP = OpDef(
    "CONV_2D",
    inputs=("x", "w", "b?"),
    infer=infer,
    forward=Kernel(
        by_groups(forward, "y"),
        reads=("x", "w", "b?"),
        writes=("y",),
        workspace=forward_workspace,
        prepare=reading,
        compiled=grouped.FORWARD,
    ),
    grads={
        "x": Kernel(
            by_groups(grad_x, "dx"),
            reads=("dy", "w"),
            writes=("dx",),
            workspace=phase_workspace,
            prepare=reading_back,
            compiled=grouped.GRAD_X,
        ),
        "w": Kernel(
            by_groups(grad_w, "dw"),
            reads=("dy", "x"),
            writes=("dw",),
            workspace=filter_workspace,
            prepare=reading,
            compiled=grouped.GRAD_W,
        ),
        "b": GRAD_B,
    },
    attrs=conv_attrs,
    flops=flops,
    arithmetic=Arithmetic.CONVOLUTION,
    quantized=QuantizedDef(
        versions={"INT8": 3, "INT16": 4},
        int8=True,
        int16=True,
        hybrid=("int8", "int4"),
        layers=(Layer(x=0, w=1, b=2, axis=0),),
        needs_scale=True,
        implies_activation=True,
        pads_input=True,
    ),
)
