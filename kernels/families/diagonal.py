"""Diagonals of the matrices along the last two axes."""

import numpy as np

from odt.kernels.rows.opdef import Array


def diagonal(a: Array) -> Array:
    """Views the diagonals (…, K) of matrices (…, M, N), where K is the smaller of M and N."""
    *_, row, column = a.strides
    shape = (*a.shape[:-2], min(a.shape[-2:]))
    return np.lib.stride_tricks.as_strided(a, shape, (*a.strides[:-2], row + column))
