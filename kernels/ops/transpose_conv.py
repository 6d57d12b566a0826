"""TRANSPOSE_CONV: transposed convolution, the input gradient of a convolution as a forward pass.

output_shape (4,), static    w (O, KH, KW, C)    x (N, H, W, C)    b (O,) or absent
y (N, OH, OW, O), of shape output_shape

kernels/families/transposed_convolution.py has the formula.
Source: TransposeConvOptions in the TFLite schema, and the definition of tf.nn.conv2d_transpose.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.convolution import checked
from odt.kernels.families.transposed_convolution import FORWARD, GRADS, flops
from odt.kernels.geometry.conv_geometry import ConvAttrs, conv_attrs
from odt.kernels.rows.opdef import Arithmetic, Array, OpDef, Options, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import Layer, QuantizedDef


@dataclass(frozen=True, slots=True)
class TransposeConvAttrs(ConvAttrs):
    """The convolution from the shape of y to the shape of x, and the shape of y."""

    output_shape: tuple[int, ...]


def attrs(options: Options, statics: Mapping[str, Array]) -> TransposeConvAttrs:
    shape = tuple(int(n) for n in np.ravel(statics["output_shape"]))
    conv = conv_attrs(options, statics)
    return TransposeConvAttrs(conv.padding, conv.stride, conv.dilation, shape)


def infer(attrs: TransposeConvAttrs, s: Specs) -> Specs:
    x, w = checked(s)
    shape = attrs.output_shape
    if len(shape) != 4 or min(shape) < 1 or shape[::3] != (x.shape[0], w.shape[0]):
        raise ShapeError(f"output_shape must be (N, OH, OW, O), but got {shape}, x {x}, w {w}")
    y = TensorSpec(shape, x.dtype)
    sizes = tuple(a.out for a in attrs.axes(y, w))
    if sizes != x.shape[1:3]:
        raise ShapeError(
            f"a convolution of output_shape must make x's height and width, {x.shape[1:3]}, "
            f"but got {sizes} from {shape}"
        )
    return {"y": y}


def scale_batch(attrs: TransposeConvAttrs, s: Specs, times: int) -> TransposeConvAttrs:
    batch, *rest = attrs.output_shape
    return replace(attrs, output_shape=(batch * times, *rest))


OP = OpDef(
    "TRANSPOSE_CONV",
    inputs=("output_shape", "w", "x", "b?"),
    infer=infer,
    forward=FORWARD,
    grads=GRADS,
    static=("output_shape",),
    attrs=attrs,
    flops=flops,
    arithmetic=Arithmetic.CONVOLUTION,
    scale_batch=scale_batch,
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 4},
        int8=True,
        int16=True,
        layers=(Layer(x=2, w=1, b=3, axis=0),),
        needs_scale=True,
    ),
)
