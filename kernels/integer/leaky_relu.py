"""INTEGER_LEAKY_RELU: y = x if x > 0, else α x, of quantized tensors, from a table.

x, y any shape, of one type of 8 bits

With a = x − z_x: y = ⌊(a m + 128) / 256⌋ + z_y, where m = round(256 s_x / s_y), or for a < 0
round(256 α s_x / s_y). These are the bits of XNNPACK's vlrelu. It computes no factors below 1 / 256
and none above 128; then y = round(a m / 256) + z_y with m as it is, and halves away from 0.
"""

from collections.abc import Mapping
from math import isfinite

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.integer_table import table_row
from odt.kernels.families.requantize import Rounding, check_factors, quantized, rounding
from odt.kernels.rows.opdef import Array, Options

STEPS = 256  # of a factor, between two integers
SMALLEST, LARGEST = 1 / STEPS, 128  # factors that are rounded
FAR = 2.0**31  # integers of y beyond it are limited alike


@dataclass(frozen=True, slots=True)
class LeakyReluAttrs:
    """Factors of a above and below 0, the zero point of x, and the rounding of y."""

    factors: tuple[np.float32, np.float32]
    zero: int
    to: Rounding


def attrs(options: Options, statics: Mapping[str, Array]) -> LeakyReluAttrs:
    x, y = (quantized(options)[n] for n in "xy")
    alpha, steps = float(options.get("alpha", 0.0)), STEPS * x.scale / y.scale
    if not isfinite(alpha):
        raise ShapeError(f"alpha must be finite, but got {alpha}")
    check_factors(steps, steps * abs(alpha))
    above = np.float32(x.scale) / np.float32(y.scale)
    below = above * np.float32(alpha)
    return LeakyReluAttrs((above, below), x.zero, rounding(options))


def values(attrs: LeakyReluAttrs, x: Array) -> Array:
    """Returns y for integers x, before it is limited."""
    a = x - attrs.zero
    factors = np.float32(STEPS) * np.where(a < 0, *reversed(attrs.factors))
    if min(attrs.factors) >= SMALLEST and max(attrs.factors) <= LARGEST:
        y: Array = (a * np.rint(factors).astype(int) + 128) >> 8
    else:
        real = np.clip(a * factors / STEPS, -FAR, FAR)
        y = np.trunc(real + np.copysign(0.5, real)).astype(int)
    return y + attrs.to.zero


OP = table_row("INTEGER_LEAKY_RELU", attrs, values)
