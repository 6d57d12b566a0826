"""TRANSPOSE_CONV: transposed convolution, the input gradient of a convolution as a forward pass.

output_shape (4,), static    w (O, KH, KW, C)    x (N, H, W, C)    b (O,) or absent
y (N, OH, OW, O), of shape output_shape

Consider the convolution with this stride and padding from the shape of y to the shape of x. y is
its input gradient if x is its output gradient. With the windows of dy as columns:
dx = columns w      dw = columnsᵀ x      db = Σ dy

Source: TransposeConvOptions in the TFLite schema, and the definition of tf.nn.conv2d_transpose.
Over 150 lines because each kernel has its own workspace and its own compiled form.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.bias import GRAD_B
from odt.kernels.families.convolution import (
    checked,
    correlate,
    filter_sums,
    phase_scratch,
    sum_phases,
    window_scratch,
)
from odt.kernels.geometry.conv_geometry import ConvAttrs, back_geometry, conv_attrs, geometry
from odt.kernels.native import transpose_conv
from odt.kernels.opdef import Array, Kernel, OpDef, Options, Specs, TensorSpec


@dataclass(frozen=True, slots=True)
class TransposeConvAttrs:
    """The shape of y, and the attributes of the convolution from that shape to the shape of x."""

    output_shape: tuple[int, ...]
    conv: ConvAttrs


def attrs(options: Options, statics: Mapping[str, Array]) -> TransposeConvAttrs:
    shape = tuple(int(n) for n in np.ravel(statics["output_shape"]))
    return TransposeConvAttrs(shape, conv_attrs(options, statics))


def infer(attrs: TransposeConvAttrs, s: Specs) -> Specs:
    x, w = checked(s)
    shape = attrs.output_shape
    if len(shape) != 4 or min(shape) < 1 or shape[::3] != (x.shape[0], w.shape[0]):
        raise ShapeError(f"output_shape must be (N, OH, OW, O), but got {shape}, x {x}, w {w}")
    y = TensorSpec(shape, x.dtype)
    made = tuple(a.out for a in attrs.conv.axes(y, w))
    if made != x.shape[1:3]:
        raise ShapeError(
            f"a convolution of output_shape must make x's height and width, {x.shape[1:3]}, "
            f"but got {made} from {shape}"
        )
    return {"y": y}


def scale_batch(attrs: TransposeConvAttrs, s: Specs, times: int) -> TransposeConvAttrs:
    batch, *rest = attrs.output_shape
    return replace(attrs, output_shape=(batch * times, *rest))


def spreading(attrs: TransposeConvAttrs, s: Specs) -> Mapping[str, Any]:
    return back_geometry(attrs.conv, {"dx": s["y"], "w": s["w"], "dy": s["x"]})


def gathering(attrs: TransposeConvAttrs, s: Specs) -> Mapping[str, Any]:
    return geometry(attrs.conv, {"x": s["dy"], "w": s["w"]})


def phase_workspace(attrs: TransposeConvAttrs, s: Specs) -> Specs:
    _, source, pairs = spreading(attrs, s).values()
    return phase_scratch(source, pairs, s["x"].shape[3], s["y"].shape[3], s["x"].dtype)


def window_workspace(attrs: TransposeConvAttrs, s: Specs) -> Specs:
    """Workspace: columns, and the filters of the convolution, with O and C exchanged."""
    axes, source = gathering(attrs, s).values()
    units, height, width, channels = s["w"].shape
    dtype = s["w"].dtype
    exchanged = TensorSpec((channels, height, width, units), dtype)
    return {**window_scratch(axes, source, dtype), "filters": exchanged}


def filter_workspace(attrs: TransposeConvAttrs, s: Specs) -> Specs:
    specs = window_workspace(attrs, s)
    return {**specs, "part": specs["filters"]}


def forward(
    attrs: TransposeConvAttrs, *, x: Array, w: Array, y: Array, b: Array | None = None, **walk: Any
) -> None:
    sum_phases(x, w.transpose(1, 2, 3, 0), y, **walk)
    if b is not None:
        np.add(y, b, out=y)


def grad_x(
    attrs: TransposeConvAttrs, *, dy: Array, w: Array, dx: Array, filters: Array, **walk: Any
) -> None:
    np.copyto(filters, w.transpose(3, 1, 2, 0))
    correlate(dy, filters.reshape(w.shape[3], -1, copy=False).T, dx, None, **walk)


def grad_w(
    attrs: TransposeConvAttrs, *, dy: Array, x: Array, dw: Array, filters: Array, **walk: Any
) -> None:
    filter_sums(x, dy, filters, **walk)
    np.copyto(dw, filters.transpose(3, 1, 2, 0))


FORWARD, GRAD_X, GRAD_W = transpose_conv.of(spreading, gathering)

OP = OpDef(
    "TRANSPOSE_CONV",
    inputs=("output_shape", "w", "x", "b?"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("w", "x", "b?"),
        writes=("y",),
        workspace=phase_workspace,
        prepare=spreading,
        compiled=FORWARD,
    ),
    grads={
        "w": Kernel(
            grad_w,
            reads=("dy", "x"),
            writes=("dw",),
            workspace=filter_workspace,
            prepare=gathering,
            compiled=GRAD_W,
        ),
        "x": Kernel(
            grad_x,
            reads=("dy", "w"),
            writes=("dx",),
            workspace=window_workspace,
            prepare=gathering,
            compiled=GRAD_X,
        ),
        "b": GRAD_B,
    },
    static=("output_shape",),
    attrs=attrs,
    scale_batch=scale_batch,
)
