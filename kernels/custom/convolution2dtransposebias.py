"""CUSTOM:Convolution2DTransposeBias: transposed convolution with a bias.

x (N, H, W, C)    w (O, KH, KW, C)    b (O,)    y (N, OH, OW, O)

With the stride s and r = (H − 1) mod s, OH is s (H − 1) + KH for padding VALID, and
s (H − 1) + min(KH, r + 1) for SAME; OW likewise.
kernels/families/transposed_convolution.py has the formula.
Source: transpose_conv_bias.cc in MediaPipe, which stores the options as TfLiteTransposeConvParams.
"""

from collections.abc import Mapping

from odt.kernels.families.convolution import checked
from odt.kernels.families.transposed_convolution import FORWARD, GRADS, flops
from odt.kernels.geometry.c_structs import TRANSPOSE_CONV, unpack_struct
from odt.kernels.geometry.conv_geometry import ConvAttrs, conv_attrs
from odt.kernels.geometry.window import SAME, axis
from odt.kernels.rows.opdef import Arithmetic, Array, OpDef, Options, Specs, TensorSpec


def attrs(options: Options, statics: Mapping[str, Array]) -> ConvAttrs:
    return conv_attrs(unpack_struct(options, TRANSPOSE_CONV), statics)


def infer(attrs: ConvAttrs, s: Specs) -> Specs:
    x, w = checked(s)
    height, width = (
        _length(x.shape[k], w.shape[k], attrs.stride[k - 1], attrs.padding) for k in (1, 2)
    )
    return {"y": TensorSpec((x.shape[0], height, width, w.shape[0]), x.dtype)}


def _length(size: int, kernel: int, stride: int, padding: int) -> int:
    axis(max(size, kernel) if size else 0, kernel, stride, 1, padding)  # checks all of them
    last = (size - 1) * stride
    return last + (min(kernel, (size - 1) % stride + 1) if padding == SAME else kernel)


OP = OpDef(
    "CUSTOM:Convolution2DTransposeBias",
    inputs=("x", "w", "b"),
    infer=infer,
    forward=FORWARD,
    grads=GRADS,
    attrs=attrs,
    flops=flops,
    arithmetic=Arithmetic.CONVOLUTION,
)
