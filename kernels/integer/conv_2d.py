"""INTEGER_CONV_2D: convolution of quantized NHWC images with quantized OHWI filters.

x (N, H, W, C)    w (O, KH, KW, C)    b (O,)    m (O,) float32    y (N, OH, OW, O)

y = clip(rint((windows of x times w + b) m) + zero point of y), with m = s_x s_w / s_y. b contains
the products of the zero point of x with w. Windows read that zero point outside the images.
Source: TFLite's 8-bit quantization specification.
"""

from collections.abc import Mapping
from typing import Any

from odt.kernels.families.integer_convolution import (
    IntegerConvAttrs,
    infer,
    integer_conv_attrs,
    product_scratch,
    round_products,
)
from odt.kernels.families.requantize import Tensors, product_constants
from odt.kernels.geometry import conv_geometry
from odt.kernels.opdef import Array, Kernel, OpDef, Specs


def constants(tensors: Tensors) -> Mapping[str, Array]:
    return product_constants(tensors, 0)


def geometry(attrs: IntegerConvAttrs, s: Specs) -> Mapping[str, Any]:
    return conv_geometry.geometry(attrs.windows, s)


def workspace(attrs: IntegerConvAttrs, s: Specs) -> Specs:
    axes, source = geometry(attrs, s).values()
    return product_scratch(axes, source, s["x"], s["w"])


def forward(
    attrs: IntegerConvAttrs, *, x: Array, w: Array, b: Array, m: Array, y: Array, **scratch: Any
) -> None:
    round_products(x, w, b, m, y, zero=attrs.zero, to=attrs.to, **scratch)


def flops(attrs: IntegerConvAttrs, s: Specs) -> int:
    return 2 * s["y"].size * (s["w"].size // s["w"].shape[0])


OP = OpDef(
    "INTEGER_CONV_2D",
    inputs=("x", "w", "b", "m"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x", "w", "b", "m"),
        writes=("y",),
        workspace=workspace,
        prepare=geometry,
    ),
    grads={},
    stops=("x", "w", "b", "m"),
    attrs=integer_conv_attrs,
    keeps_activation=True,
    flops=flops,
)
