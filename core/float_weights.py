"""A model file whose float16 and int8 weights are float32: what it computes is said without them.

New buffers go in front of the old bytes (see flatbuffer_edit). In these the tensors change their
type and lose their scales; a DEQUANTIZE of a weight is taken from the list of operators, and who
read its output reads the weight.
"""

import struct
from collections.abc import Iterator, Sequence

import numpy as np

from odt.core.flatbuffer import Source, Table
from odt.core.flatbuffer_edit import (
    BUFFERS,
    MARK,
    SUBGRAPHS,
    NewTable,
    Patch,
    absolute_offsets,
    buffer_table,
    front,
    patched,
)
from odt.core.folding import Folded
from odt.core.reader import Model, parse_model
from odt.errors import UnsupportedError
from odt.kernels.opdef import Array

TENSORS, OUTPUTS, OPERATORS = 0, 2, 3  # slots of SubGraph
TYPE, BUFFER, QUANTIZATION = 1, 2, 4  # slots of Tensor
SCALE, ZERO_POINT = 2, 3  # slots of QuantizationParameters
READ = 1  # slot of Operator: its inputs


def removed(model: Model, folded: Folded) -> tuple[int, ...]:
    """Positions of the operators that the file loses."""
    left = {n.origin for n in folded.graph.nodes}
    return tuple(n.origin for n in model.graph.nodes if n.origin not in left)


def with_float_weights(model: Model, folded: Folded) -> Model:
    """The model with float32 weights.

    Args:
        folded: its graph, and what was unfolded.

    Raises:
        UnsupportedError: if something reads a weight as it is stored.
    """
    _check_readers(model, folded)
    source = Source(model.path, model.data)
    root = source.root()
    values = _values(model, folded)
    graphs = list(root.tables(SUBGRAPHS, "subgraph"))
    patches = [*_retyped(graphs[0], values), *_rewired(graphs[0], model, folded)]
    buffers: list[int | NewTable] = [
        buffer_table(values[k].astype("<f4").tobytes()) if k in values else table.pos
        for k, table in enumerate(root.tables(BUFFERS, "buffer"))
    ]
    before = front(0, root, bytes(model.data[4:8]), vectors={BUFFERS: buffers})
    patches += absolute_offsets(root, len(before))
    # Without the mark: what comes in front of this file later must not take the place of this.
    at = before.index(MARK)
    parts = [before[:at], bytes(len(MARK)), before[at + len(MARK) :]]
    data = b"".join([*parts, *patched(model.data, patches)])
    return parse_model(memoryview(data), model.path)


def _values(model: Model, folded: Folded) -> dict[int, Array]:
    """Buffer → its values as float32."""
    tensors = folded.graph.tensors
    found = {
        t.buffer: t.data
        for t in tensors
        if t.buffer in folded.stored and t.data is not None and t.spec.dtype == np.float32
    }
    assert found.keys() == folded.stored.keys(), model.path
    return found


def _check_readers(model: Model, folded: Folded) -> None:
    for node in folded.graph.nodes:
        for i in node.inputs:
            tensor = folded.graph.tensors[i] if i >= 0 else None
            if tensor and tensor.buffer in folded.stored and tensor.spec.dtype != np.float32:
                raise UnsupportedError(
                    f"{model.path}: node {node.origin} ({node.op}): {model.graph.label(i)} must "
                    f"be read as float32 to be written so, but got {tensor.spec.dtype}. "
                    "Give --export-weights as-stored."
                )


def _retyped(graph: Table, values: dict[int, Array]) -> Iterator[Patch]:
    """The type of each tensor that names a changed buffer, and its scales."""
    for table in graph.tables(TENSORS, "tensor"):
        if table.number(BUFFER, "I") not in values:
            continue
        at = table.place(TYPE, 1)
        if not at:
            continue  # it is float32 already
        yield at, b"\0"
        scales = table.table(QUANTIZATION, "quantization")
        for slot in (SCALE, ZERO_POINT):
            start, length = scales.vector(slot, 1, "scales") if scales else (0, 0)
            if length:
                yield start - 4, struct.pack("<I", 0)


def _rewired(graph: Table, model: Model, folded: Folded) -> Iterator[Patch]:
    """The list of operators without those that are taken out, and who read their outputs."""
    gone = removed(model, folded)
    if not gone:
        return
    instead = {n.outputs[0]: n.inputs[0] for n in model.graph.nodes if n.origin in gone}
    tables = list(graph.tables(OPERATORS, "operator"))
    kept = [t.pos for k, t in enumerate(tables) if k not in gone]
    start, _ = graph.vector(OPERATORS, 4, "operators")
    offsets = [pos - (start + 4 * k) for k, pos in enumerate(kept)]
    yield start - 4, struct.pack(f"<{1 + len(kept)}I", len(kept), *offsets)
    for table, slot in [(graph, OUTPUTS), *((t, READ) for t in tables)]:
        yield from _renumbered(table, slot, instead)


def _renumbered(table: Table, slot: int, instead: dict[int, int]) -> Sequence[Patch]:
    start, _ = table.vector(slot, 4, "tensors")
    numbers = table.numbers(slot, "tensors")
    return [
        (start + 4 * k, struct.pack("<i", instead[i]))
        for k, i in enumerate(numbers)
        if i in instead
    ]
