"""Functions of 16-bit integers in fixed-point arithmetic, with the bits of TFLite's kernels.

A number with k integer bits is an int16 in steps of 2ᵏ⁻¹⁵; arrays hold int64. Products are rounded
to nearest, halves up, and quotients by powers of two to nearest, halves away from 0.
Source: gemmlowp's fixed-point functions (exponential by a polynomial on [−1/4, 0) and factors of
powers of two; 1 / (1 + x) by three steps of Newton).
"""

from collections.abc import Callable
from math import floor, frexp

import numpy as np

from odt.kernels.rows.opdef import Array

LO, HI = -(2**15), 2**15 - 1
ONE_BITS = 15  # of a number without integer bits: 1 is 2¹⁵
NEWTON_BITS = 2  # integer bits of 2 / (1 + x)
NEWTON_STEPS = 3
LEAST_EXPONENT, MAX_EXPONENT = -2, 4  # of the factors exp(−2ᵉ) of an exponential
FEW_BITS = 5  # more integer bits hold numbers whose exponential is 0
SPAN_BITS = 7  # of the distance of two values of a table
SPANS = 2 ** (16 - SPAN_BITS)
MULTIPLIER_BITS = 31


def rounded_shift(a: Array, bits: int) -> Array:
    """Returns a / 2ᵇⁱᵗˢ, rounded half away from 0."""
    if bits == 0:
        return a
    shifted: Array = (a + (1 << (bits - 1)) + (a >> 63)) >> bits
    return shifted


def constant(value: float, integer_bits: int = 0) -> int:
    """Returns a constant with 31 bits, rounded to 15."""
    return (round(value * 2.0 ** (31 - integer_bits)) + (1 << 15)) >> 16


def product(a: Array, b: Array | int) -> Array:
    """Returns the product of two numbers; their integer bits add up."""
    rounded: Array = np.right_shift(a * b + (1 << 14), 15)
    return rounded


def raised(a: Array, bits: int) -> Array:
    """Returns a with fewer integer bits, limited to int16."""
    limited: Array = np.clip(a << bits, LO, HI)
    return limited


def exp_of_negatives(a: Array, integer_bits: int) -> Array:
    """Returns exp(a) without integer bits, for a ≤ 0."""
    fraction = 15 - integer_bits
    quarter = 1 << (fraction - 2)
    rest = (a & (quarter - 1)) - quarter  # −1/4 ≤ rest < 0, and a − rest is a multiple of 1/4
    # exp(rest) = exp(−1/8) (1 + x + x²/2 + x³/6 + x⁴/24) with x = rest + 1/8
    x = (rest << integer_bits) + (1 << 12)
    square = product(x, x)
    cube, fourth = product(square, x), product(square, square)
    terms = product(rounded_shift(fourth, 2) + cube, constant(1 / 3)) + square
    middle = constant(np.exp(-1 / 8))
    y = np.minimum(middle + product(x + rounded_shift(terms, 1), middle), HI)
    for exponent in range(LEAST_EXPONENT, min(MAX_EXPONENT, integer_bits - 1) + 1):
        has_factor = (rest - a) >> (fraction + exponent) & 1
        y = np.where(has_factor, product(y, constant(np.exp(-(2.0**exponent)))), y)
    if integer_bits > FEW_BITS:
        y = np.where(a < -(1 << (fraction + FEW_BITS)), 0, y)
    return np.where(a == 0, HI, y)


def two_over_one_plus(a: Array) -> Array:
    """Returns 2 / (1 + a) with NEWTON_BITS integer bits, for a from 0 to 1 without integer bits."""
    half = (a + HI + 1) >> 1
    x = constant(48 / 17, NEWTON_BITS) + product(half, constant(-32 / 17, NEWTON_BITS))
    one = 1 << (15 - NEWTON_BITS)
    for _ in range(NEWTON_STEPS):
        x = x + raised(product(x, one - product(half, x)), NEWTON_BITS)
    return x


def logistic(a: Array, integer_bits: int) -> Array:
    """Returns σ(a) without integer bits."""
    positive = raised(two_over_one_plus(exp_of_negatives(-abs(a), integer_bits)), NEWTON_BITS - 1)
    return np.where(a == 0, 1 << 14, np.where(a > 0, positive, HI - positive))


def tanh(a: Array, integer_bits: int) -> Array:
    """Returns tanh(a) without integer bits."""
    twice = exp_of_negatives(-abs(a), integer_bits + 1)  # the exponential of −2 |a|
    y = raised(two_over_one_plus(twice) - (1 << (15 - NEWTON_BITS)), NEWTON_BITS)
    return np.where(a == 0, 0, np.where(a < 0, -y, y))


def fixed_multiplier(factor: float) -> tuple[int, int]:
    """Returns a factor as an integer of 31 bits, or more if it is above 1, and an exponent k ≥ 0.

    The factor is m / 2³¹⁺ᵏ. Integers of 17 bits times a factor beyond 2¹⁶ have no use.
    """
    fraction, exponent = frexp(factor)
    m = floor(fraction * 2**MULTIPLIER_BITS + 0.5)
    return m << min(max(exponent, 0), 16), min(max(-exponent, 0), MULTIPLIER_BITS)


def multiplied(a: Array, factor: tuple[int, int]) -> Array:
    """Returns a times a factor from `fixed_multiplier`, rounded once for 2³¹ and once for 2ᵏ."""
    product = a.astype(np.int64)
    multiply(product, factor, np.empty(product.size, np.int64))
    return product


def multiply(a: Array, factor: tuple[int, int], scratch: Array) -> None:
    """Multiplies int64 numbers as `multiplied` does, in place.

    Args:
        a: integers of up to 32 bits. Those of more than 17 are limited if the factor is above 1, as
            products beyond int16 have no use.
        factor: from `fixed_multiplier`.
        scratch: flat int64, of at least as many values.
    """
    m, k = factor
    if m >> MULTIPLIER_BITS:
        np.clip(a, LO << 1, -LO << 1, out=a)
    np.multiply(a, m, out=a)
    np.add(a, 1 << (MULTIPLIER_BITS - 1), out=a)
    np.right_shift(a, MULTIPLIER_BITS, out=a)
    shift_rounded(a, k, scratch)


def shift_rounded(a: Array, bits: int, scratch: Array) -> None:
    """Divides as `rounded_shift` does, in place, with a scratch of `multiply`."""
    if bits == 0:
        return
    signs = scratch[: a.size].reshape(a.shape)
    np.right_shift(a, 63, out=signs)
    np.add(a, signs, out=a)
    np.add(a, 1 << (bits - 1), out=a)
    np.right_shift(a, bits, out=a)


def table_of(function: Callable[[Array], Array], first: float, last: float) -> Array:
    """Returns SPANS + 1 values without integer bits of a function, for `interpolated`.

    A value is moved by half the error of the interpolation in the middle of the span after it.

    Args:
        function: the function of float64 numbers.
        first, last: the numbers that stand for the smallest and the largest int16.
    """
    width = (last - first) / SPANS
    exact = function(first + np.arange(SPANS + 1) * width) * 2.0**ONE_BITS
    middle = function(first + np.arange(SPANS) * width + width / 2) * 2.0**ONE_BITS
    values = _half_away(exact)
    error = _half_away((exact[1:] + values[:-1]) / 2) - _half_away(middle)
    values[:-1] -= _half_away(error / 2)
    table: Array = np.clip(values, LO, HI).astype(np.int64)
    return table


def _half_away(a: Array) -> Array:
    """Rounds to nearest, halves away from 0."""
    rounded: Array = np.copysign(np.floor(np.abs(a) + 0.5), a)
    return rounded


def interpolated(table: Array, a: Array) -> Array:
    """Returns values of int16 numbers, between those of a table from `table_of`."""
    at, part = (a - LO) >> SPAN_BITS, (a - LO) & (2**SPAN_BITS - 1)
    value: Array = table[at] + (
        ((table[at + 1] - table[at]) * part + 2 ** (SPAN_BITS - 1)) >> SPAN_BITS
    )
    return value
