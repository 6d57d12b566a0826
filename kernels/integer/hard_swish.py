"""INTEGER_HARD_SWISH: y = x · min(max(x + 3, 0), 6) / 6 of quantized tensors, from a table.

x, y any shape, of one type of 8 bits

With q = 2¹⁵ and a = 128 (x − z_x): r = ½ (a s_x / (128 · 3) + 1) limited to [0, 1), in steps of
1 / q, and p = a s_x / (128 s_y) 2ⁿ with n so that 2ⁿ s_x / (128 s_y) is from ½ to 1;
y = clip(r p / 2ⁿ + z_y). Factors have 15 bits; products are rounded to nearest, r p towards 0 and
its quotient to nearest. These are the bits of TFLite's kernel, which LiteRT uses.
"""

from collections.abc import Mapping
from math import frexp

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.families.integer_table import table_row
from odt.kernels.families.requantize import Rounding, check_factors, quantized, rounding
from odt.kernels.geometry.fixed_point import HI, constant, product, raised, rounded_shift
from odt.kernels.rows.opdef import Array, Options

FINER = np.float32(1 / 128)  # steps of a, in steps of x
BITS = 16  # shifts by more make no difference
THREE = np.float32(3 / 2**15)  # steps in which 3 is 2¹⁵


@dataclass(frozen=True, slots=True)
class HardSwishAttrs:
    """Scales of x and y, the zero point of x, and the rounding of y."""

    scales: tuple[float, float]
    zero: int
    to: Rounding


def attrs(options: Options, statics: Mapping[str, Array]) -> HardSwishAttrs:
    x, y = (quantized(options)[n] for n in "xy")
    check_factors(*factors(x.scale, y.scale))
    return HardSwishAttrs((x.scale, y.scale), x.zero, rounding(options))


def factors(x: float, y: float) -> tuple[np.float32, np.float32]:
    """Returns the factors of a in r and in p, from the scales of x and y."""
    with np.errstate(over="ignore"):
        finer = FINER * np.float32(x)
        return finer / THREE, finer / np.float32(y)


def fixed(factor: np.float32) -> tuple[int, int]:
    """Returns a factor from ½ to 1 with 15 bits, and the exponent of the power of two beside it."""
    mantissa, exponent = frexp(float(factor))
    return min(constant(mantissa), HI), exponent


def shifted(a: Array, exponent: int) -> Array:
    """Returns a, of 16 bits, times a power of two, rounded or limited to 16 bits."""
    if exponent > 0:
        return raised(a, min(exponent, BITS))
    return rounded_shift(a, min(-exponent, BITS))


def values(attrs: HardSwishAttrs, x: Array) -> Array:
    """Returns y for integers x, before it is limited."""
    of_fraction, of_parts = factors(*attrs.scales)
    a = (x - attrs.zero) << 7
    factor, exponent = fixed(of_fraction)
    before = max(exponent - 1, 0)  # the last doubling follows the product
    limited = shifted(product(shifted(a, before), factor), exponent - before)
    fraction = (limited + (1 << 15)) >> 1
    factor, exponent = fixed(of_parts)
    parts = fraction * product(a, factor)
    towards_0 = np.sign(parts) * (np.abs(parts) >> 15)
    return shifted(towards_0, exponent) + attrs.to.zero


OP = table_row("INTEGER_HARD_SWISH", attrs, values)
