"""INTEGER_FULLY_CONNECTED: dense layer of quantized tensors, a 1×1 convolution of the rows of x.

x (…, I)    w (O / 16, I / 4, 16, 4), with zeros after the last    b (O,)
m, start, zeros (O,) rounded up to 16 values, zeros (0,) if all are 0    y (N, O), or (…, O)

y = clip(rint((x wᵀ + b) m) + zero point of y), with m = s_x s_w / s_y. b contains the products of
the zero point of x with w. The layout of w is that of the compiled kernels: see product_constants.
Source: TFLite's 8-bit quantization specification.
"""

from collections.abc import Mapping
from typing import Any

from odt.dataclass import dataclass
from odt.kernels.families.integer_convolution import (
    PANEL_PRODUCTS,
    check_constants,
    product_scratch,
    round_products,
)
from odt.kernels.families.requantize import Rounding, Tensors, panel_constants, quantized, rounding
from odt.kernels.geometry.axes import same
from odt.kernels.geometry.conv_geometry import Axes
from odt.kernels.geometry.im2col import PaddedImages
from odt.kernels.geometry.window import VALID, axis
from odt.kernels.native import integer
from odt.kernels.ops import fully_connected as dense
from odt.kernels.rows.opdef import (
    Arithmetic,
    Array,
    Compiled,
    Kernel,
    Names,
    OpDef,
    Options,
    Specs,
    TensorSpec,
)


@dataclass(frozen=True, slots=True)
class IntegerDenseAttrs:
    """Whether x keeps its axes, shape (O, I) of w in the file, and rounding of the sums."""

    keep_num_dims: bool
    filters: tuple[int, ...]
    to: Rounding


def attrs(options: Options, statics: Mapping[str, Array]) -> IntegerDenseAttrs:
    w = quantized(options)["w"].data
    assert w is not None, "weights of integer rows are constants"
    keep = dense.attrs(options, statics).keep_num_dims
    return IntegerDenseAttrs(keep, w.shape, rounding(options))


def constants(tensors: Tensors) -> Mapping[str, Array]:
    return panel_constants(tensors)


def infer(attrs: IntegerDenseAttrs, s: Specs) -> Specs:
    x, w = s["x"], TensorSpec(attrs.filters, s["x"].dtype)
    specs = dense.infer(dense.FullyConnectedAttrs(attrs.keep_num_dims), {"x": x, "w": w})
    check_constants(s, w.shape[0])
    return {"y": TensorSpec(specs["y"].shape, attrs.to.dtype)}


def geometry(attrs: IntegerDenseAttrs, s: Specs) -> Mapping[str, Any]:
    """Prepares the geometry of rows as images of one pixel."""
    width = attrs.filters[1]
    pixel = axis(1, 1, 1, 1, VALID)
    axes: Axes = (pixel, pixel)
    return {
        "axes": axes,
        "source": PaddedImages(s["x"].size // width, (0, 0), (0, 0), 1, 1, width),
    }


def workspace(attrs: IntegerDenseAttrs, s: Specs) -> Specs:
    axes, source = geometry(attrs, s).values()
    return product_scratch(axes, source, s)


def forward(
    attrs: IntegerDenseAttrs,
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
    units, width = attrs.filters
    pixels, results = x.reshape(-1, 1, 1, width, copy=False), y.reshape(-1, 1, 1, units, copy=False)
    round_products(pixels, w, b, m, zeros, results, zero=0, to=attrs.to, **scratch)


def mixes_samples(attrs: IntegerDenseAttrs, s: Specs, batched: Names) -> bool:
    w = TensorSpec(attrs.filters, s["w"].dtype)
    return dense.mixes_samples(dense.FullyConnectedAttrs(), {"x": s["x"], "w": w}, batched)


def flops(attrs: IntegerDenseAttrs, s: Specs) -> int:
    return 2 * s["y"].size * attrs.filters[1]


OP = OpDef(
    "INTEGER_FULLY_CONNECTED",
    inputs=PANEL_PRODUCTS,
    infer=infer,
    forward=Kernel(
        forward,
        reads=PANEL_PRODUCTS,
        writes=("y",),
        workspace=workspace,
        prepare=geometry,
        compiled=Compiled(integer.dense, integer.fits, prepare=geometry),
    ),
    grads={},
    stops=PANEL_PRODUCTS,
    attrs=attrs,
    keeps_activation=True,
    mixes_samples=mixes_samples,
    add_batch_axis=same,
    flops=flops,
    arithmetic=Arithmetic.DENSE,
)
