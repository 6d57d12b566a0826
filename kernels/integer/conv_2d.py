"""INTEGER_CONV_2D: convolution of quantized NHWC images with quantized filters.

x (N, H, W, C)    w (O / 16, KH KW C / 4, 16, 4)    b, m, start, zeros (O,)    y (N, OH, OW, O)

y = clip(rint((windows of x times w + b) m) + zero point of y), with m = s_x s_w / s_y. b contains
the products of the zero point of x with w. Windows read that zero point outside the images. The
layout of w is that of the compiled kernels: see product_constants.
Source: TFLite's 8-bit quantization specification.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

from odt.kernels.families.integer_convolution import (
    PANEL_PRODUCTS,
    IntegerConvAttrs,
    geometry,
    infer,
    integer_conv_attrs,
    product_scratch,
    round_products,
)
from odt.kernels.families.requantize import Tensors, panel_constants
from odt.kernels.native import integer
from odt.kernels.rows.opdef import Arithmetic, Array, Compiled, Kernel, OpDef, Specs


def constants(tensors: Tensors) -> Mapping[str, Array]:
    return panel_constants(tensors)


def workspace(attrs: IntegerConvAttrs, s: Specs) -> Specs:
    axes, source = geometry(attrs, s).values()
    return product_scratch(axes, source, s)


def forward(
    attrs: IntegerConvAttrs,
    *,
    x: Array,
    w: Array,
    b: Array,
    m: Array,
    start: Array,
    zeros: Array,
    y: Array,
    **scratch: Any,
) -> None:
    round_products(x, w, b, m, zeros, y, zero=attrs.zero, to=attrs.to, **scratch)


def flops(attrs: IntegerConvAttrs, s: Specs) -> int:
    return 2 * s["y"].size * prod(attrs.filters[1:])


OP = OpDef(
    "INTEGER_CONV_2D",
    inputs=PANEL_PRODUCTS,
    infer=infer,
    forward=Kernel(
        forward,
        reads=PANEL_PRODUCTS,
        writes=("y",),
        workspace=workspace,
        prepare=geometry,
        compiled=Compiled(integer.convolution, integer.fits, prepare=geometry),
    ),
    grads={},
    stops=PANEL_PRODUCTS,
    attrs=integer_conv_attrs,
    keeps_activation=True,
    flops=flops,
    arithmetic=Arithmetic.CONVOLUTION,
)
