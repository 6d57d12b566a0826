"""INTEGER_FULLY_CONNECTED: dense layer of quantized tensors, a 1×1 convolution of the rows of x.

x (…, I)    w (O, I)    b (O,)    m (O,) float32    y (N, O), or (…, O) with keep_num_dims

y = clip(rint((x wᵀ + b) m) + zero point of y), with m = s_x s_w / s_y. b contains the products of
the zero point of x with w. Source: TFLite's 8-bit quantization specification.
"""

from collections.abc import Mapping
from typing import Any

from odt.dataclass import dataclass
from odt.kernels.families.integer_convolution import (
    check_constants,
    product_scratch,
    round_products,
)
from odt.kernels.families.requantize import Rounding, Tensors, product_constants, rounding
from odt.kernels.geometry.axes import same
from odt.kernels.geometry.conv_geometry import Axes
from odt.kernels.geometry.im2col import PaddedImages
from odt.kernels.geometry.window import VALID, axis
from odt.kernels.opdef import Array, Kernel, OpDef, Options, Specs, TensorSpec
from odt.kernels.ops import fully_connected as dense


@dataclass(frozen=True, slots=True)
class IntegerDenseAttrs:
    keep_num_dims: bool
    to: Rounding


def attrs(options: Options, statics: Mapping[str, Array]) -> IntegerDenseAttrs:
    return IntegerDenseAttrs(dense.attrs(options, statics).keep_num_dims, rounding(options))


def constants(tensors: Tensors) -> Mapping[str, Array]:
    return product_constants(tensors, 0)


def infer(attrs: IntegerDenseAttrs, s: Specs) -> Specs:
    x, w = s["x"], TensorSpec(s["w"].shape, s["x"].dtype)
    made = dense.infer(dense.FullyConnectedAttrs(attrs.keep_num_dims), {"x": x, "w": w})
    check_constants(s, w.shape[0])
    return {"y": TensorSpec(made["y"].shape, attrs.to.dtype)}


def geometry(attrs: IntegerDenseAttrs, s: Specs) -> Mapping[str, Any]:
    """Prepares the geometry of rows as images of one pixel."""
    width = s["w"].shape[1]
    pixel = axis(1, 1, 1, 1, VALID)
    axes: Axes = (pixel, pixel)
    return {
        "axes": axes,
        "source": PaddedImages(s["x"].size // width, (0, 0), (0, 0), 1, 1, width),
    }


def workspace(attrs: IntegerDenseAttrs, s: Specs) -> Specs:
    axes, source = geometry(attrs, s).values()
    return product_scratch(axes, source, s["x"], s["w"])


def forward(
    attrs: IntegerDenseAttrs, *, x: Array, w: Array, b: Array, m: Array, y: Array, **scratch: Any
) -> None:
    units, width = w.shape
    round_products(
        x.reshape(-1, 1, 1, width, copy=False),
        w.reshape(units, 1, 1, width, copy=False),
        b,
        m,
        y.reshape(-1, 1, 1, units, copy=False),
        zero=0,
        to=attrs.to,
        **scratch,
    )


OP = OpDef(
    "INTEGER_FULLY_CONNECTED",
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
    attrs=attrs,
    keeps_activation=True,
    mixes_samples=dense.mixes_samples,
    add_batch_axis=same,
    flops=dense.flops,
)
