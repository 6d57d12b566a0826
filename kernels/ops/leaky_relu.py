"""LEAKY_RELU: y = x if x > 0, else α x, element by element.

dx = dy if y > 0, else α dy. α must be at least 0, because backward takes the sign of x from y.

Source: LeakyReluOptions in the TFLite schema.
"""

from collections.abc import Mapping

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.elementwise import mask_like_y, unary
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import Array, Options
from odt.kernels.rows.quantizeddef import QuantizedDef


@dataclass(frozen=True, slots=True)
class LeakyReluAttrs:
    alpha: float


def attrs(options: Options, statics: Mapping[str, Array]) -> LeakyReluAttrs:
    alpha = float(options.get("alpha", 0.0))
    if not alpha >= 0:
        raise ShapeError(f"alpha must be 0 or more, but got {alpha}")
    return LeakyReluAttrs(alpha)


def scale_unless_positive(a: Array, sign: Array, alpha: float, out: Array, mask: Array) -> None:
    np.less_equal(sign, 0, out=mask)
    np.copyto(out, a)
    np.multiply(out, alpha, out=out, where=mask)


def forward(attrs: LeakyReluAttrs, *, x: Array, y: Array, mask: Array) -> None:
    scale_unless_positive(x, x, attrs.alpha, y, mask)


def grad_x(attrs: LeakyReluAttrs, *, dy: Array, y: Array, dx: Array, mask: Array) -> None:
    scale_unless_positive(dy, y, attrs.alpha, dx, mask)


OP = unary(
    "LEAKY_RELU",
    forward,
    grad_x,
    reads=("y",),
    over=("dy", "y"),
    attrs=attrs,
    workspace=mask_like_y,
    back_workspace=mask_like_y,
    compiled=elementwise.kernel("leaky_relu", "y", ("x", "x"), lambda attrs: attrs.alpha),
    compiled_back=elementwise.kernel("leaky_relu", "dx", ("dy", "y"), lambda attrs: attrs.alpha),
    quantized=QuantizedDef(versions={"INT16": 2}, int8=True, int16=True, bytes_only=True),
)
