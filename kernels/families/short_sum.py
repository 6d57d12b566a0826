"""Sums and differences of int16 with the bits of TFLite's kernels, which LiteRT uses.

With S = 2 max(s_a, s_b), and [·] for rounding to nearest:

a' = [[2¹⁵ (a − z_a) m / 2³¹] / 2ᵏ] with m / 2³¹⁺ᵏ = s_a / S, and b' alike
y = clip([[(a' ± b') m / 2³¹] / 2ᵏ] + z_y) with m / 2³¹⁺ᵏ = S / (2¹⁵ s_y)

ADD of tensors of one shape rounds once to a' and b' in its blocks of BLOCK values, which begin with
the first value of a sample: a' = [⌊2¹⁵⁻ᵏ (a − z_a)⌋ m / 2³¹].

If all scales are powers of two, that of y is the largest and one of the others, and the option
`pot_scale_int16` is not false: y = clip(a ± [b / 2ᵏ]), or with [a / 2ᵏ].
"""

from math import log2
from typing import TypeAlias

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.families.requantize import QuantizedTensor, Rounding, Tensors, clip_sums
from odt.kernels.geometry.fixed_point import fixed_multiplier, multiply, shift_rounded
from odt.kernels.rows.opdef import Array, Options

SHIFT = 15  # of a and b before they are multiplied
BLOCK = 16
POWER_TOLERANCE = 1e-3  # of the logarithm of a scale that counts as a power of two
Factor: TypeAlias = tuple[int, int]  # m and k: m / 2³¹⁺ᵏ


@dataclass(frozen=True, slots=True)
class ShortSum:
    """How int16 tensors a and b are added or subtracted.

    Attributes:
        sign: 1 for sums, −1 for differences.
        zeros: zero points of a and b.
        factors: those of a, b and their sum.
        powers: k of a and b for scales that are powers of two; None for others.
        to: rounding of y.
    """

    sign: int
    zeros: tuple[int, int]
    factors: tuple[Factor, Factor, Factor]
    powers: tuple[int, int] | None
    to: Rounding


def short_sum(tensors: Tensors, options: Options, sign: int, to: Rounding) -> ShortSum:
    """Returns how a node adds or subtracts int16 tensors.

    Args:
        tensors: a, b and y.
        options: the node's; `pot_scale_int16` is used.
        sign: 1 for sums, −1 for differences.
        to: rounding of y.
    """
    a, b, y = (tensors[n] for n in "aby")
    most = 2 * max(a.scale, b.scale)
    quotients = a.scale / most, b.scale / most, most / (2**SHIFT * y.scale)
    first, second, last = map(fixed_multiplier, quotients)
    powers = _powers(a, b, y) if options.get("pot_scale_int16", True) else None
    return ShortSum(sign, (a.zero, b.zero), (first, second, last), powers, to)


def _powers(a: QuantizedTensor, b: QuantizedTensor, y: QuantizedTensor) -> tuple[int, int] | None:
    """Returns the shifts of a and b for scales that are powers of two, None for others."""
    logs = [log2(t.scale) for t in (a, b, y)]
    if any(abs(v - round(v)) >= POWER_TOLERANCE for v in logs) or a.zero or b.zero or y.zero:
        return None
    first, second, last = map(round, logs)
    shifts = last - first, last - second
    return shifts if min(shifts) == 0 and max(shifts) <= SHIFT else None


def add_short(
    how: ShortSum,
    *,
    a: Array,
    b: Array,
    y: Array,
    first: Array,
    second: Array,
    sums: Array,
    scratch: Array,
) -> None:
    """Computes y = a ± b.

    Args:
        first, second, sums: int64 in the shapes of a, b and y.
        scratch: flat int64, with as many values as y.
    """
    arrays = (a, b, y, first, second, sums)
    if not (y.ndim and y.size) or a.ndim != b.ndim or a.shape[1:] != b.shape[1:]:
        _add_part(how, None, False, scratch, *arrays)
        return
    rows = [v.reshape(len(v), -1, copy=False) for v in arrays]
    end = rows[0].shape[1] // BLOCK * BLOCK if how.sign > 0 else 0
    for part, once in ((slice(end), True), (slice(end, None), False)):
        _add_part(how, how.powers, once, scratch, *(r[:, part] for r in rows))


def _add_part(
    how: ShortSum,
    powers: tuple[int, int] | None,
    once: bool,
    scratch: Array,
    a: Array,
    b: Array,
    y: Array,
    first: Array,
    second: Array,
    sums: Array,
) -> None:
    """Computes a part of y: with shifts for powers of two, or a' and b' rounded once or twice."""
    for k, (x, term) in enumerate(((a, first), (b, second))):
        np.subtract(x, np.int64(how.zeros[k]), out=term)
        if powers:
            shift_rounded(term, powers[k], scratch)
            continue
        m, shift = how.factors[k]
        left = SHIFT - shift if once else SHIFT
        (np.left_shift if left >= 0 else np.right_shift)(term, abs(left), out=term)
        multiply(term, (m, 0) if once else (m, shift), scratch)
    (np.add if how.sign > 0 else np.subtract)(first, second, out=sums)
    if not powers:
        multiply(sums, how.factors[2], scratch)
    clip_sums(sums, how.to, y)
