"""Aligned memory, and arrays at offsets in it."""

import numpy as np

from odt.core.planning.memory import ALIGNMENT, aligned
from odt.kernels.opdef import Array, TensorSpec


def make_arena(nbytes: int) -> Array:
    """Allocates bytes that start at a multiple of ALIGNMENT."""
    block = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -block.ctypes.data % ALIGNMENT
    return block[start : start + nbytes]


def aligned_copy(a: Array) -> Array:
    """Copies an array to memory that starts at a multiple of ALIGNMENT."""
    copy = empty(TensorSpec(a.shape, a.dtype))
    np.copyto(copy, a)
    return copy


def empty(spec: TensorSpec) -> Array:
    """Allocates an array that starts at a multiple of ALIGNMENT."""
    return view(make_arena(aligned(spec.nbytes)), 0, spec)


def view(arena: Array, offset: int, spec: TensorSpec) -> Array:
    return arena[offset : offset + spec.nbytes].view(spec.dtype).reshape(spec.shape)
