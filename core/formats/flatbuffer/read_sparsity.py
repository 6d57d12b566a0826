"""Reads how a file stores sparse constants.

Source: SparsityParameters in the TFLite schema.
"""

import math

import numpy as np

from odt.core.formats.flatbuffer.flatbuffer import Table
from odt.core.formats.flatbuffer.slots import (
    DimensionMetadataSlot,
    SparsityParametersSlot,
    TensorSlot,
)
from odt.core.model.sparsity import Sparsity
from odt.kernels.rows.opdef import Array

DENSE = 0  # DimensionType
INDICES = {1: "<i4", 2: "<u2", 3: "|u1"}  # SparseIndexVector → dtype
MAX_BYTES = 2**31  # of a sparse constant's dense form
INDEX = np.dtype(np.int32)
VALUES = 0  # slot of all tables of SparseIndexVector


def read_sparsity(
    tensor: Table, shape: tuple[int, ...], dtype: np.dtype[np.generic], nbytes: int
) -> Sparsity:
    """Reads the sparsity of a constant.

    Levels are traversed from the outermost to the innermost. A level stands for an axis, for the
    blocks along an axis, or for an axis of the blocks. It has all positions, or those of a list.

    Args:
        tensor: the tensor's table, which has a sparsity.
        shape: shape of the dense tensor.
        dtype: dtype of its values.
        nbytes: bytes of the constant's buffer.

    Raises:
        ModelError: if the lists fit neither each other nor the tensor.
    """
    table = tensor.table(TensorSlot.SPARSITY, "sparsity")
    assert table is not None
    if math.prod(shape) * dtype.itemsize > MAX_BYTES:
        raise table.error(f"its dense form must fit into {MAX_BYTES} bytes, but got {shape}")
    order = table.numbers(SparsityParametersSlot.TRAVERSAL_ORDER, "traversal order")
    blocked = table.numbers(SparsityParametersSlot.BLOCK_MAP, "block map")
    levels = [*table.tables(SparsityParametersSlot.DIM_METADATA, "level", f"{table.where}, ")]
    if (
        sorted(order) != [*range(len(levels))]
        or len(levels) != len(shape) + len(blocked)
        or not all(0 <= axis < len(shape) for axis in blocked)
    ):
        raise table.error(
            f"its {len(levels)} levels must be the {len(shape)} axes and their blocks in some "
            f"order, but got {order[:8]} with blocks of the axes {blocked[:8]}"
        )
    sizes, steps = _axes(table, shape, blocked, [levels[order.index(k)] for k in range(len(order))])
    nodes, places = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for level, k in zip(levels, order, strict=True):
        nodes, repeated, indices = _level(level, nodes, sizes[k])
        places = np.repeat(places, repeated) + indices * steps[k]
    if len(places) * dtype.itemsize != nbytes:
        raise table.error(
            f"its buffer must have {len(places)} values of {dtype}, but got {nbytes} bytes"
        )
    return Sparsity(dtype, places.astype(INDEX))


def _axes(
    table: Table, shape: tuple[int, ...], blocked: tuple[int, ...], levels: list[Table]
) -> tuple[list[int], list[int]]:
    """Returns the length of each axis and block, and the distance of its entries when flat."""
    sizes = list(shape)
    lengths = [
        level.number(DimensionMetadataSlot.DENSE_SIZE, "i") for level in levels[len(shape) :]
    ]
    steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    for axis, length in zip(blocked, lengths, strict=True):
        if length < 1 or sizes[axis] % length:
            raise table.error(
                f"blocks must divide axis {axis} of {sizes[axis]}, but got blocks of {length}"
            )
        sizes[axis] //= length
        sizes.append(length)
        steps.append(steps[axis])
        steps[axis] *= length
    return sizes, steps


def _level(level: Table, nodes: Array, size: int) -> tuple[Array, Array | int, Array]:
    """Traverses a level.

    Args:
        level: the level's table.
        nodes: the entries of the level above that have values.
        size: number of positions.

    Returns:
        The entries of this level; how many there are for each node; and their positions.
    """
    if level.number(DimensionMetadataSlot.FORMAT, "b") == DENSE:
        length = level.number(DimensionMetadataSlot.DENSE_SIZE, "i")
        if length != size or len(nodes) * size > level.source.size:
            raise level.error(
                f"must have the {size} positions of its axis and fit into the file, but got "
                f"{length}, {len(nodes)} times"
            )
        positions = np.arange(size)
        return (
            (nodes[:, np.newaxis] * size + positions).reshape(-1),
            size,
            np.tile(positions, len(nodes)),
        )
    ends = _list(level, DimensionMetadataSlot.ARRAY_SEGMENTS_TYPE, "segments")
    entries = _list(level, DimensionMetadataSlot.ARRAY_INDICES_TYPE, "indices")
    fits = (
        len(ends) > nodes.max(initial=0) + 1
        and not ends[0]
        and (np.diff(ends) >= 0).all()
        and ends[-1] <= len(entries)
        and entries.min(initial=0) >= 0
        and entries.max(initial=0) < size
    )
    if not fits:
        raise level.error(
            f"segments must divide a list of positions below {size} among {len(nodes)} entries, "
            f"but got {len(ends)} segments and {len(entries)} positions"
        )
    # The positions of node n are entries[ends[n] : ends[n + 1]]; here those of all nodes in a row.
    counts = (ends[1:] - ends[:-1])[nodes]
    starts = np.repeat(ends[nodes] - np.cumsum(counts) + counts, counts)
    numbers = starts + np.arange(len(starts))
    return numbers, counts, entries[numbers]


def _list(level: Table, slot: int, what: str) -> Array:
    """Reads a union of vectors of integers: its type is in a slot, its value in the next."""
    code = level.number(slot, "B")
    table = level.table(slot + 1, what)
    if table is None or code not in INDICES:
        raise level.error(f"{what} must be a list of integers, but got type {code}")
    return table.array(VALUES, INDICES[code], what).astype(np.int64)
