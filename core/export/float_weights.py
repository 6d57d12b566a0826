"""Rewrites a file so that float16, integer and sparse weights are stored as float32.

New buffers are put in front of the old bytes (see flatbuffer_edit). In the old bytes, the types of
the tensors change and their scales are removed, also those of quantized activations; the DEQUANTIZE
of a weight and conversions of activations are removed from the list of operators, and operators
that read their outputs read their inputs. If ranges of activations imply RELUs, or weights are
sparse, the file is serialized anew before.
"""

import struct
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from odt.core.export.dense_constants import with_dense_constants
from odt.core.export.named_activations import with_named_activations
from odt.core.formats.flatbuffer.appended_zip import offset_patches
from odt.core.formats.flatbuffer.flatbuffer import FlatBuffer, Table
from odt.core.formats.flatbuffer.flatbuffer_edit import (
    NewBuffer,
    NewTable,
    Patch,
    absolute_offsets,
    add_buffers,
    front,
    patched,
)
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.formats.flatbuffer.slots import (
    ModelSlot,
    OperatorSlot,
    QuantizationParametersSlot,
    SignatureDefSlot,
    SubGraphSlot,
    TensorMapSlot,
    TensorSlot,
)
from odt.core.formats.flatbuffer.subgraphs import same_values
from odt.core.integers.implied_activations import implied_activations
from odt.core.integers.real_graph import real_graph
from odt.core.integers.stored_values import shared_biases
from odt.core.lowering.normalize.inline import inline
from odt.core.lowering.normalize.left_out import PASSING
from odt.core.model.dequantize import DequantizedGraph
from odt.core.model.graph import Graph, Node
from odt.core.model.integer_operators import CONVERSIONS
from odt.core.model.model import Model
from odt.core.model.variables import READ as READ_VARIABLE
from odt.core.model.variables import Key, handles
from odt.core.recipe.interface import resized
from odt.errors import UnsupportedError
from odt.kernels.geometry.quantize import dequantize

LENGTH_BYTES = 4  # of the length before the items of a vector


def removed_operators(model: Model, dequantized: DequantizedGraph) -> tuple[int, ...]:
    """Returns the positions of the operators that `with_float_weights` removes."""
    origins = {n.origin for n in dequantized.graph.nodes}
    return tuple(
        n.origin
        for n in model.graph.nodes
        if (n.origin not in origins or _converts_activations(n, dequantized))
        and not _is_inside(model, n)
    )


def _is_inside(model: Model, node: Node) -> bool:
    """Whether a node reads a constant of another subgraph, and so is no operator of the graph."""
    return any(i in model.places for i in node.inputs)


def _converts_activations(node: Node, dequantized: DequantizedGraph) -> bool:
    tensors = dequantized.activations.intersection((*node.inputs, *node.outputs))
    return node.op in CONVERSIONS and bool(tensors)


def with_float_weights(model: Model, dequantized: DequantizedGraph) -> Model:
    """Rewrites a model with float32 weights: its types, its list of operators, and its buffers.

    Args:
        model: the model.
        dequantized: its graph with float32 weights.

    Raises:
        UnsupportedError: if an operator reads a weight in its stored form.
    """
    if model.sparsity:
        model = inline(with_dense_constants(model))
        dequantized = real_graph(model)
    _check_readers(model, dequantized)
    implied = implied_activations(model)
    if implied:
        model = inline(with_named_activations(model, implied))
        dequantized = real_graph(model)
    source = FlatBuffer(model.path, model.data)
    root = source.root()
    graphs = list(root.tables(ModelSlot.SUBGRAPHS, "subgraph"))
    patches: list[Patch] = []
    # Types of tensors, and operators that convert them, in all subgraphs that run.
    for number, real in _real_tensors(model, dequantized).items():
        patches += _type_patches(graphs[number], real)
        if number != model.subgraph:
            body = model.bodies[number].graph
            removals = [n for n in body.nodes if n.op in PASSING and not real.isdisjoint(n.inputs)]
            patches += _operator_patches(root, number, body, removals)
    positions = {*removed_operators(model, dequantized)}
    removals = [n for n in model.graph.nodes if n.origin in positions]
    patches += _operator_patches(root, model.subgraph, model.graph, removals)
    # New buffers: the values of weights, and initial values of variables.
    initial = [*_initial_values(model, dequantized)]
    for buffer in initial:
        for subgraph, i in buffer.tensors:
            patches += _type_patches(graphs[subgraph], {i})
    buffers: list[int | NewTable] = [t.pos for t in root.tables(ModelSlot.BUFFERS, "buffer")]
    patches += add_buffers(root, buffers, [*_new_buffers(model, dequantized), *initial])
    identifier = bytes(model.data[4:8])
    before = front(0, root, identifier, vectors={ModelSlot.BUFFERS: buffers}, lasting=True)
    patches += absolute_offsets(root, len(before)) + offset_patches(model.data, len(before))
    data = b"".join([before, *patched(model.data, patches)])
    new = parse_model(memoryview(data), model.path, model.signature)
    return resized(new, model.input_shapes)


def _new_buffers(model: Model, dequantized: DequantizedGraph) -> Iterator[NewBuffer]:
    """Yields a buffer of float32 values for each weight, even if weights shared one before.

    Tensors of no values, such as the intermediate ones of an int8 LSTM, have no bytes to replace.
    """
    for i, stored in dequantized.stored.items():
        values = dequantized.graph.tensors[i].real
        assert values is not None
        if values.size:
            yield NewBuffer((model.place(stored),), values.astype("<f4").tobytes())


def _initial_values(model: Model, dequantized: DequantizedGraph) -> Iterator[NewBuffer]:
    """Yields a buffer of float32 values for the initial value of each quantized variable."""
    keys = handles(model.graph.nodes)
    written = set[Key]()
    for node in model.graph.nodes:
        key = keys.get(node.inputs[0]) if node.op == READ_VARIABLE and node.inputs else None
        if key not in model.variables or key in written or key is None:
            continue
        variable, (y,) = model.variables[key], node.outputs
        if y in dequantized.activations and variable.value is not None:
            written.add(key)
            values = dequantize(variable.value, model.quantization[y])
            place = variable.subgraph, variable.tensor
            yield NewBuffer((place,), values.astype("<f4").tobytes())


def _check_readers(model: Model, dequantized: DequantizedGraph) -> None:
    """Raises UnsupportedError if something reads values that become float32 in another form."""
    stored = set(dequantized.stored.values())
    count = len(parse_model(model.data, model.path, model.signature).graph.tensors)
    inside = sorted(i for i in dequantized.activations if i >= count)
    if inside:
        raise UnsupportedError(
            f"{model.path}: {model.graph.label(inside[0])}: activations to store as float32 must "
            "be in the graph itself, but got one of a subgraph. Give `float_weights=False`."
        )
    for i in shared_biases(model) - stored:
        raise UnsupportedError(
            f"{model.path}: {model.graph.label(i)} must be the bias of one layer to be stored as "
            "float32, but layers of other scales share it. Give `float_weights=False`."
        )
    for node in dequantized.graph.nodes:
        for i in stored.intersection(node.inputs):
            dtype = dequantized.graph.tensors[i].spec.dtype
            if dtype != np.float32:
                raise UnsupportedError(
                    f"{model.path}: node {node.origin} ({node.op}): {model.graph.label(i)} must "
                    f"be read as float32 to be stored as float32, but got {dtype}. "
                    "Give `float_weights=False`."
                )


def _real_tensors(model: Model, dequantized: DequantizedGraph) -> dict[int, set[int]]:
    """Returns the tensors of each subgraph that become float32."""
    file = parse_model(model.data, model.path, model.signature)
    graphs = {file.subgraph: file.graph} | {k: body.graph for k, body in file.bodies.items()}
    places = {model.place(i) for i in {*dequantized.stored.values(), *dequantized.activations}}
    tensors: dict[int, set[int]] = {file.subgraph: set()}
    for number, i in same_values(graphs, places):
        tensors.setdefault(number, set()).add(i)
    return tensors


def _type_patches(graph: Table, tensors: Collection[int]) -> Iterator[Patch]:
    """Yields patches for type and scales of the tensors that become float32."""
    for i, table in enumerate(graph.tables(SubGraphSlot.TENSORS, "tensor")):
        if i not in tensors:
            continue
        at = table.place(TensorSlot.TYPE, 1)
        if not at:
            continue  # it is float32 already
        yield at, b"\0"
        parameters = table.table(TensorSlot.QUANTIZATION, "quantization")
        if parameters is None:
            continue
        details = parameters.place(QuantizationParametersSlot.DETAILS_TYPE, 1)
        if details:
            yield details, b"\0"  # blocks have scales in a tensor, which stays
        start, length = parameters.vector(QuantizationParametersSlot.SCALE, 4, "scales")
        if length:
            # A vtable without fields in place of the scales: litert-quantizer takes tensors with
            # empty scales for quantized ones.
            vtable = start - LENGTH_BYTES
            yield vtable, struct.pack("<2H", LENGTH_BYTES, LENGTH_BYTES)
            yield parameters.pos, struct.pack("<i", parameters.pos - vtable)


def _operator_patches(
    root: Table, number: int, graph: Graph, removals: Sequence[Node]
) -> Iterator[Patch]:
    """Yields patches for the operators of a subgraph, its outputs and those of its signatures.

    Args:
        root: table of the model.
        number: number of the subgraph.
        graph: the subgraph.
        removals: operators to remove, each with one input and one output.
    """
    if not removals:
        return
    table = list(root.tables(ModelSlot.SUBGRAPHS, "subgraph"))[number]
    instead = _replacements(graph, removals)
    tables = list(table.tables(SubGraphSlot.OPERATORS, "operator"))
    positions = {n.origin for n in removals}
    positions_left = [t.pos for k, t in enumerate(tables) if k not in positions]
    start, _ = table.vector(SubGraphSlot.OPERATORS, 4, "operators")
    offsets = [pos - (start + 4 * k) for k, pos in enumerate(positions_left)]
    yield (
        start - LENGTH_BYTES,
        struct.pack(f"<{1 + len(positions_left)}I", len(positions_left), *offsets),
    )
    places = [(t, slot) for t in tables for slot in (OperatorSlot.INPUTS, OperatorSlot.OUTPUTS)]
    for entry, slot in [(table, SubGraphSlot.OUTPUTS), *places]:
        yield from _number_patches(entry, slot, instead)
    for signature in root.tables(ModelSlot.SIGNATURE_DEFS, "signature"):
        if signature.number(SignatureDefSlot.SUBGRAPH_INDEX, "I") == number:
            yield from _signature_patches(signature, instead)


def _replacements(graph: Graph, removals: Sequence[Node]) -> dict[int, int]:
    """Returns tensor → the tensor to read or compute in its place, without some operators."""
    instead: dict[int, int] = {}
    for node in removals:
        (x,), (y,) = node.inputs, node.outputs
        x = instead.get(x, x)
        stays = x in (*graph.inputs, *graph.outputs) or graph.tensors[x].data is not None
        if y in graph.outputs and not stays:
            instead = {i: y if k == x else k for i, k in instead.items()}
            instead[x] = y  # outputs keep their numbers
        else:
            instead[y] = x
    return instead


def _signature_patches(signature: Table, instead: dict[int, int]) -> Iterator[Patch]:
    """Yields patches for the outputs of a signature, some of which have another tensor instead."""
    for output in signature.tables(SignatureDefSlot.OUTPUTS, "output"):
        place = output.place(TensorMapSlot.TENSOR_INDEX, 4)
        i = output.number(TensorMapSlot.TENSOR_INDEX, "I")
        if i in instead:
            if not place:
                raise output.error(
                    "must store the number of its tensor to get another, but does not"
                )
            yield place, struct.pack("<I", instead[i])


def _number_patches(table: Table, slot: int, instead: dict[int, int]) -> Sequence[Patch]:
    """Returns patches for a vector of tensors, some of which have another tensor instead."""
    start, _ = table.vector(slot, 4, "tensors")
    numbers = table.numbers(slot, "tensors")
    return [
        (start + 4 * k, struct.pack("<i", instead[i]))
        for k, i in enumerate(numbers)
        if i in instead
    ]
