"""Aligned memory, and arrays at offsets in it."""

import itertools
from collections.abc import Hashable, Mapping
from typing import TypeVar

import numpy as np

from odt.core.planning.memory import ALIGNMENT, aligned
from odt.core.storage.reading import MAX_BYTES
from odt.kernels.rows.opdef import Array, TensorSpec

Key = TypeVar("Key", bound=Hashable)


def make_arena(nbytes: int, *, zeros: bool = False) -> Array:
    """Allocates bytes that start at a multiple of ALIGNMENT.

    Raises:
        MemoryError: if there are not so many, also for more than an address can count.
    """
    if nbytes > MAX_BYTES - ALIGNMENT:
        raise MemoryError(f"Unable to allocate {nbytes} bytes")
    block = (np.zeros if zeros else np.empty)(nbytes + ALIGNMENT, np.uint8)
    start = -block.ctypes.data % ALIGNMENT
    return block[start : start + nbytes]


def make_arrays(specs: Mapping[Key, TensorSpec], *, zeros: bool = False) -> dict[Key, Array]:
    """Allocates arrays in one block, each at a multiple of ALIGNMENT.

    Systems give a large block large pages, which are first touched in a fifth of the time.

    Args:
        specs: specs of the arrays.
        zeros: whether the arrays are filled with zeros.
    """
    sizes = (aligned(spec.nbytes) for spec in specs.values())
    *starts, end = itertools.accumulate(sizes, initial=0)
    block = make_arena(end, zeros=zeros)
    return {
        key: view(block, start, spec)
        for start, (key, spec) in zip(starts, specs.items(), strict=True)
    }


def copy_arrays(arrays: Mapping[Key, Array]) -> dict[Key, Array]:
    """Copies arrays to one block."""
    copies = make_arrays({key: TensorSpec(a.shape, a.dtype) for key, a in arrays.items()})
    for key, a in arrays.items():
        np.copyto(copies[key], a)
    return copies


def view(arena: Array, offset: int, spec: TensorSpec) -> Array:
    """Returns the array of a spec at a byte offset of an arena."""
    return np.ndarray(spec.shape, spec.dtype, arena, offset)
