"""Aligned memory, and arrays at offsets in it."""

import itertools
import mmap
from collections.abc import Hashable, Mapping
from contextlib import suppress
from typing import TypeVar

import numpy as np

from odt.core.planning.memory import ALIGNMENT, aligned
from odt.core.storage.reading import MAX_BYTES
from odt.kernels.rows.opdef import Array, TensorSpec

Key = TypeVar("Key", bound=Hashable)
PAGE = 4096  # bytes that systems give at once, or a part of them


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
    *starts, end = _starts(specs)
    return _views(make_arena(end, zeros=zeros), starts, specs)


def make_zeros_by_page(specs: Mapping[Key, TensorSpec]) -> dict[Key, Array]:
    """Allocates zeros in small pages, of which each takes memory from its first write on.

    NumPy asks Linux for large pages, of which each write takes 2 MB.

    Args:
        specs: specs of the arrays.

    Raises:
        MemoryError: if there is no room for them.
    """
    *starts, end = _starts(specs)
    if not end or not hasattr(mmap, "MADV_NOHUGEPAGE"):  # other systems have small pages only
        return _views(make_arena(end, zeros=True), starts, specs)
    try:
        pages = mmap.mmap(-1, end, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as e:
        raise MemoryError(f"Unable to allocate {end} bytes") from e
    with suppress(OSError):  # a kernel without large pages knows no advice about them
        pages.madvise(mmap.MADV_NOHUGEPAGE)
    return _views(np.frombuffer(pages, np.uint8), starts, specs)


def overwrite(target: Array, values: Array | None = None) -> None:
    """Copies values to an array, except to pages that hold them: unwritten zeros take no memory.

    Args:
        target: a contiguous array.
        values: its new values, of the same shape and type; None for zeros.
    """
    source = np.zeros(target.shape, target.dtype) if values is None else values
    new = np.ascontiguousarray(source, target.dtype).reshape(-1).view(np.uint8)
    to = target.reshape(-1, copy=False).view(np.uint8)
    for at in range(0, to.size, PAGE):
        page = slice(at, at + PAGE)
        if not np.array_equal(to[page], new[page]):
            to[page] = new[page]


def _starts(specs: Mapping[Key, TensorSpec]) -> list[int]:
    """Returns the byte offsets of arrays in a block, and the size of the block."""
    return [*itertools.accumulate((aligned(s.nbytes) for s in specs.values()), initial=0)]


def _views(block: Array, starts: list[int], specs: Mapping[Key, TensorSpec]) -> dict[Key, Array]:
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
