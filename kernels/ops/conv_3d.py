"""CONV_3D: cross-correlation of NDHWC volumes with DHWIO filters.

x (N, D, H, W, C)    w (KD, KH, KW, C, O)    b (O,) or absent    y (N, OD, OH, OW, O)

With the windows of x as columns: y = columns w + b
dw = columnsᵀ dy      db = Σ dy      dx: kernels/families/convolution_3d.py
Source: Conv3DOptions in the TFLite schema, tf.nn.conv3d.
"""

from collections.abc import Mapping
from typing import Any

from odt.kernels.families import compiled_volumes as compiled
from odt.kernels.families.bias import GRAD_B
from odt.kernels.families.convolution_3d import (
    Span,
    check,
    correlate,
    correlate_scratch,
    filter_scratch,
    filter_sums,
    lengths,
    spans,
    spread,
    spread_scratch,
    volume_attrs,
)
from odt.kernels.geometry.conv_geometry import VolumeAttrs
from odt.kernels.rows.opdef import Arithmetic, Array, Kernel, OpDef, Specs, TensorSpec

Taps = Mapping[str, tuple[Span, ...]]


def infer(attrs: VolumeAttrs, s: Specs) -> Specs:
    x, w = s["x"], s["w"]
    check(s, channels=3, units=4)
    return {"y": TensorSpec((x.shape[0], *lengths(attrs, x, w), w.shape[4]), x.dtype)}


def flops(attrs: VolumeAttrs, s: Specs) -> int:
    return 2 * s["y"].size * s["w"].size // s["w"].shape[4]


def reading(attrs: VolumeAttrs, s: Specs) -> Taps:
    y = s.get("dy", s["y"])
    return {"taps": spans(attrs, s["x"], s["w"], y)}


def spreading(attrs: VolumeAttrs, s: Specs) -> Taps:
    return {"taps": spans(attrs, s["x"], s["w"], s["dy"], back=True)}


def workspace(attrs: VolumeAttrs, s: Specs) -> Specs:
    return correlate_scratch(attrs, s["x"], s["w"], s["y"])


def filter_workspace(attrs: VolumeAttrs, s: Specs) -> Specs:
    return filter_scratch(attrs, s["x"], s["w"], s["dy"])


def back_workspace(attrs: VolumeAttrs, s: Specs) -> Specs:
    return spread_scratch(attrs, s["x"], s["w"], s["dy"])


def forward(
    attrs: VolumeAttrs, *, x: Array, w: Array, y: Array, b: Array | None = None, **kwargs: Any
) -> None:
    correlate(x, w, y, b, **kwargs)


def grad_w(attrs: VolumeAttrs, *, dy: Array, x: Array, dw: Array, **kwargs: Any) -> None:
    filter_sums(dy, x, dw, **kwargs)


def grad_x(attrs: VolumeAttrs, *, dy: Array, w: Array, dx: Array, **kwargs: Any) -> None:
    spread(dy, w, dx, **kwargs)


OP = OpDef(
    "CONV_3D",
    inputs=("x", "w", "b?"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x", "w", "b?"),
        writes=("y",),
        workspace=workspace,
        prepare=reading,
        compiled=compiled.compiled_form(
            compiled.correlate, compiled.correlate_scratch, takes="clamp", packed=compiled.packed
        ),
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "w"),
            writes=("dx",),
            workspace=back_workspace,
            prepare=spreading,
            compiled=compiled.compiled_form(
                compiled.spread, compiled.spread_scratch, takes="relu_mask"
            ),
        ),
        "w": Kernel(
            grad_w,
            reads=("dy", "x"),
            writes=("dw",),
            workspace=filter_workspace,
            prepare=reading,
            compiled=compiled.compiled_form(
                compiled.filter_sums, compiled.filter_scratch, takes="bias_gradient"
            ),
        ),
        "b": GRAD_B,
    },
    flops=flops,
    arithmetic=Arithmetic.CONVOLUTION,
    attrs=volume_attrs,
)
