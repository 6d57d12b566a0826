"""Model files with sparse constants."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from odt.core.export.model_builder import Entry, ModelBuilder, table
from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.kernels.rows.opdef import Array

DTYPES = {"Int32Vector": np.int32, "Uint16Vector": np.uint16, "Uint8Vector": np.uint8}


def sparse_parameters(
    a: Array,
    order: Sequence[int],
    blocks: Sequence[tuple[int, int]] = (),
    sparse: Sequence[int] = (),
    kind: str = "Uint8Vector",
) -> tuple[Entry, list[float]]:
    """Encodes a tensor value by value.

    Args:
        a: the tensor.
        order: axes, and blocks as further axes, from the outermost to the innermost level.
        blocks: (axis, length) of each block.
        sparse: levels that list positions; the others have all.
        kind: type of the lists.

    Returns:
        The SparsityParameters, and the stored values.
    """
    sizes = list(a.shape)
    for axis, length in blocks:
        sizes[axis] //= length
        sizes.append(length)

    def values(prefix: tuple[int, ...]) -> Array:
        """The values below the positions of the first levels."""
        at: list[Any] = [slice(None)] * a.ndim
        for k, position in zip(order, prefix, strict=False):
            if k < a.ndim and not any(k == axis for axis, _ in blocks):
                at[k] = position
        mask = np.ones(a.shape, bool)
        for n, (axis, length) in enumerate(blocks):
            rows = np.arange(a.shape[axis])
            fits = np.ones(len(rows), bool)
            for k, position in zip(order, prefix, strict=False):
                if k == axis:
                    fits &= rows // length == position
                if k == a.ndim + n:
                    fits &= rows % length == position
            shape = [1] * a.ndim
            shape[axis] = len(rows)
            mask &= fits.reshape(shape)
        below: Array = np.where(mask, a, 0)[tuple(at)]
        return below

    nodes: list[tuple[int, ...]] = [()]
    levels: list[Entry] = []
    for n, k in enumerate(order):
        every = range(sizes[k])
        if n not in sparse:
            nodes = [(*node, p) for node in nodes for p in every]
            levels.append(table("DimensionMetadata", format=0, dense_size=sizes[k]))
            continue
        ends, entries, below = [0], [], []
        for node in nodes:
            kept = [p for p in every if values((*node, p)).any()]
            entries += kept
            below += [(*node, p) for p in kept]
            ends.append(len(entries))
        nodes = below
        levels.append(_listed(ends, entries, kind))
    stored = [float(values(node).sum()) for node in nodes]
    entry = table(
        "SparsityParameters",
        traversal_order=list(order),
        block_map=[axis for axis, _ in blocks] or None,
        dim_metadata=levels,
    )
    return entry, stored


def _listed(ends: list[int], entries: list[int], kind: str) -> Entry:
    code = code_of("SparseIndexVector", kind)
    segments, indices = (table(kind, values=np.array(v, DTYPES[kind])) for v in (ends, entries))
    return table(
        "DimensionMetadata",
        format=1,
        array_segments_type=code,
        array_segments=segments,
        array_indices_type=code,
        array_indices=indices,
    )


def add_sparse(b: ModelBuilder, entry: Entry, stored: Array, shape: Sequence[int]) -> int:
    """Adds a sparse constant."""
    i = b.add_tensor(shape, stored.dtype.name, "sparse", b.add_buffer(stored.tobytes()))
    b.graph.tensors[i].sparsity = entry
    return i


def sparse_weights(shape: Sequence[int], kept: float = 0.3, seed: int = 0) -> Array:
    """Draws weights of which a fraction is not zero; exact in float16."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=shape) * (rng.random(shape) < kept)
    return a.astype(np.float16).astype(np.float32)


def sparse_net(path: Path, half: bool) -> Array:
    """Writes a net with a sparse dense layer behind DENSIFY; returns its weights (6, 8)."""
    b, a = ModelBuilder("tflite", 1), sparse_weights((6, 8))
    x = b.add_input((1, 8))
    entry, stored = sparse_parameters(a, (0, 1), sparse=(1,))
    kind = "float16" if half else "float32"
    w = add_sparse(b, entry, np.array(stored, kind), a.shape)
    w = b.add_operator("DENSIFY", (w,), a.shape, dtype=kind)
    if half:
        w = b.add_operator("DEQUANTIZE", (w,), a.shape)
    bias = b.add_constant(np.zeros(6, np.float32))
    y = b.add_operator("FULLY_CONNECTED", (x, w, bias), (1, 6))
    b.write(path, b.add_dense(y, 3))
    return a
