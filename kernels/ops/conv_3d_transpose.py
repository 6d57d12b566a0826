"""CONV_3D_TRANSPOSE: transposed convolution of volumes, the input gradient of a CONV_3D.

output_shape (5,), static    w (KD, KH, KW, O, C)    x (N, D, H, W, C)    b (O,) or absent
y (N, OD, OH, OW, O), of shape output_shape

Consider the CONV_3D with these filters, stride and padding from the shape of y to the shape of x. y
is its input gradient if x is its output gradient. With the windows of dy as columns:
dx = columns w      dw = columnsᵀ x      db = Σ dy
Source: Conv3DOptions in the TFLite schema, tf.nn.conv3d_transpose.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families import compiled_volumes as compiled
from odt.kernels.families import convolution_3d as volumes
from odt.kernels.families.bias import GRAD_B
from odt.kernels.families.convolution_3d import Span, check, lengths, spans
from odt.kernels.geometry.conv_geometry import VolumeAttrs
from odt.kernels.rows.opdef import Arithmetic, Array, Kernel, OpDef, Options, Specs, TensorSpec

Taps = Mapping[str, tuple[Span, ...]]


@dataclass(frozen=True, slots=True)
class TransposeAttrs(VolumeAttrs):
    """The convolution from the shape of y to the shape of x, and the shape of y."""

    output_shape: tuple[int, ...]


def attrs(options: Options, statics: Mapping[str, Array]) -> TransposeAttrs:
    conv = volumes.volume_attrs(options, statics)
    return TransposeAttrs(
        conv.padding,
        conv.stride,
        conv.dilation,
        conv.depth_stride,
        conv.depth_dilation,
        tuple(int(n) for n in np.ravel(statics["output_shape"])),
    )


def infer(attrs: TransposeAttrs, s: Specs) -> Specs:
    x, w, shape = s["x"], s["w"], attrs.output_shape
    check(s, channels=4, units=3)
    if len(shape) != 5 or min(shape) < 1 or shape[::4] != (x.shape[0], w.shape[3]):
        raise ShapeError(f"output_shape must be (N, OD, OH, OW, O), but got {shape}, x {x}, w {w}")
    y = TensorSpec(shape, x.dtype)
    sizes = lengths(attrs, y, w)
    if sizes != x.shape[1:4]:
        raise ShapeError(
            f"a convolution of output_shape must make x's depth, height and width, "
            f"{x.shape[1:4]}, but got {sizes} from {shape}"
        )
    return {"y": y}


def scale_batch(attrs: TransposeAttrs, s: Specs, times: int) -> TransposeAttrs:
    batch, *rest = attrs.output_shape
    return replace(attrs, output_shape=(batch * times, *rest))


def flops(attrs: TransposeAttrs, s: Specs) -> int:
    return 2 * s["x"].size * s["w"].size // s["w"].shape[4]


def spreading(attrs: TransposeAttrs, s: Specs) -> Taps:
    return {"taps": spans(attrs, s["y"], s["w"], s["x"], back=True)}


def reading(attrs: TransposeAttrs, s: Specs) -> Taps:
    return {"taps": spans(attrs, s["dy"], s["w"], s["x"])}


def workspace(attrs: TransposeAttrs, s: Specs) -> Specs:
    return volumes.spread_scratch(attrs, s["y"], s["w"], s["x"])


def filter_workspace(attrs: TransposeAttrs, s: Specs) -> Specs:
    return volumes.filter_scratch(attrs, s["dy"], s["w"], s["x"])


def back_workspace(attrs: TransposeAttrs, s: Specs) -> Specs:
    return volumes.correlate_scratch(attrs, s["dy"], s["w"], s["x"])


def forward(
    attrs: TransposeAttrs, *, x: Array, w: Array, y: Array, b: Array | None = None, **kwargs: Any
) -> None:
    volumes.spread(x, w, y, **kwargs)
    if b is not None:
        np.add(y, b, out=y)


def grad_w(attrs: TransposeAttrs, *, dy: Array, x: Array, dw: Array, **kwargs: Any) -> None:
    volumes.filter_sums(x, dy, dw, **kwargs)


def grad_x(attrs: TransposeAttrs, *, dy: Array, w: Array, dx: Array, **kwargs: Any) -> None:
    volumes.correlate(dy, w, dx, None, **kwargs)


OP = OpDef(
    "CONV_3D_TRANSPOSE",
    inputs=("output_shape", "w", "x", "b?"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("w", "x", "b?"),
        writes=("y",),
        workspace=workspace,
        prepare=spreading,
        compiled=compiled.compiled_form(
            compiled.spread, compiled.spread_scratch, takes="clamp", x="dy", y="dx"
        ),
    ),
    grads={
        "w": Kernel(
            grad_w,
            reads=("dy", "x"),
            writes=("dw",),
            workspace=filter_workspace,
            prepare=reading,
            compiled=compiled.compiled_form(
                compiled.filter_sums, compiled.filter_scratch, dy="x", x="dy"
            ),
        ),
        "x": Kernel(
            grad_x,
            reads=("dy", "w"),
            writes=("dx",),
            workspace=back_workspace,
            prepare=reading,
            compiled=compiled.compiled_form(
                compiled.correlate, compiled.correlate_scratch, takes="relu_mask", dy="x", dx="y"
            ),
        ),
        "b": GRAD_B,
    },
    static=("output_shape",),
    attrs=attrs,
    scale_batch=scale_batch,
    flops=flops,
    arithmetic=Arithmetic.CONVOLUTION,
)
