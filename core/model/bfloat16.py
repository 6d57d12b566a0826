"""Conversion of float32 to and from bfloat16, its upper half, which NumPy does not have."""

import numpy as np

from odt.kernels.rows.opdef import Array

SHIFT = 16  # bits of a float32 that bfloat16 leaves out
QUIET_NAN = np.uint32(1 << 22)  # the bit of a float32 that all NaNs of computations have


def to_bfloat16(values: Array) -> Array:
    """Returns the bits (N,) of the nearest numbers, of two equally near the even one, as uint16."""
    bits = values.astype("<f4").reshape(-1).view("<u4")
    half = (bits >> SHIFT & 1) + np.uint32(2 ** (SHIFT - 1) - 1)
    rounded = np.where(np.isnan(values.reshape(-1)), bits | QUIET_NAN, bits + half)
    return np.asarray((rounded >> SHIFT).astype("<u2"))


def from_bfloat16(bits: Array) -> Array:
    """Returns the float32 values of the bits of numbers, which are uint16."""
    return np.asarray((bits.astype("<u4") << SHIFT).view("<f4"))
