"""INTEGER_CONV_2D: convolution of quantized NHWC images with quantized filters.

x (N, H, W, C)    w (O / 16, KH KW C / 4, 16, 4), with zeros after the last    b (O,)
m, start, zeros (O,) rounded up to 16 values, zeros (0,) if all are 0    y (N, OH, OW, O)

y = clip(rint((windows of x times w + b) m) + zero point of y), with m = s_x s_w / s_y. b contains
the products of the zero point of x with w. Windows read that zero point outside the images. The
layout of w is that of the compiled kernels: see product_constants. Filters with fewer channels than
x read groups of them, and each group has a panel of its own (kernels/families/grouped.py).
Source: TFLite's 8-bit quantization specification.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

from odt.kernels.families.grouped import by_groups, copies, of_group
from odt.kernels.families.integer_convolution import (
    PANEL_PRODUCTS,
    IntegerConvAttrs,
    geometry,
    infer,
    integer_conv_attrs,
    product_scratch,
    round_products,
)
from odt.kernels.families.requantize import Tensors, constants_of_groups, panel_constants
from odt.kernels.geometry.conv_geometry import number_of_groups
from odt.kernels.native import integer
from odt.kernels.rows.opdef import Arithmetic, Array, Compiled, Kernel, OpDef, Specs, TensorSpec


def constants(tensors: Tensors) -> Mapping[str, Array]:
    x, w = tensors["x"], tensors["w"]
    assert w.data is not None, "weights of integer rows are constants"
    groups = number_of_groups(TensorSpec(x.shape, x.dtype), TensorSpec(w.data.shape, w.dtype))
    return constants_of_groups(tensors, groups) if groups > 1 else panel_constants(tensors)


def groups_of(attrs: IntegerConvAttrs, s: Specs) -> int:
    return s["x"].shape[3] // attrs.filters[3]


def reading(attrs: IntegerConvAttrs, s: Specs) -> Mapping[str, Any]:
    groups = groups_of(attrs, s)
    return {**geometry(attrs, of_group(s, groups)), "groups": groups}


def workspace(attrs: IntegerConvAttrs, s: Specs) -> Specs:
    groups = groups_of(attrs, s)
    part = of_group(s, groups)
    axes, source = geometry(attrs, part).values()
    return {**product_scratch(axes, source, part), **compiled_workspace(attrs, s)}


def compiled_workspace(attrs: IntegerConvAttrs, s: Specs) -> Specs:
    return copies(s, "x", "y", groups=groups_of(attrs, s))


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


def compiles(attrs: IntegerConvAttrs, s: Specs) -> bool:
    groups = groups_of(attrs, s)
    return integer.fits(attrs, s) if groups == 1 else integer.group_fits(attrs, s, groups)


def flops(attrs: IntegerConvAttrs, s: Specs) -> int:
    return 2 * s["y"].size * prod(attrs.filters[1:])


OP = OpDef(
    "INTEGER_CONV_2D",
    inputs=PANEL_PRODUCTS,
    infer=infer,
    forward=Kernel(
        by_groups(forward, "y"),
        reads=PANEL_PRODUCTS,
        writes=("y",),
        workspace=workspace,
        prepare=reading,
        compiled=Compiled(integer.convolution, compiles, compiled_workspace, reading),
    ),
    grads={},
    stops=PANEL_PRODUCTS,
    attrs=integer_conv_attrs,
    keeps_activation=True,
    flops=flops,
    arithmetic=Arithmetic.CONVOLUTION,
)
