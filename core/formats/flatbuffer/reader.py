"""Parses and checks TFLite and Circle files: bytes → Model.

TFLite and Circle files have the same tables with the same slots; Circle has more operators and
tensor types. The file is checked here once and completely: for any bytes, the result is a Model or
one ModelError, within a second.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from odt.core.formats.flatbuffer.arities import check_arities
from odt.core.formats.flatbuffer.flatbuffer import DAMAGED, FORMATS, FlatBuffer, Table
from odt.core.formats.flatbuffer.operator_options import operator_code, operator_name, read_options
from odt.core.formats.flatbuffer.read_tensors import Spans, below, read_tensors
from odt.core.formats.flatbuffer.schema_tables import unknown_code
from odt.core.formats.flatbuffer.slots import (
    BufferSlot,
    MetadataSlot,
    ModelSlot,
    OperatorCodeSlot,
    OperatorSlot,
    SignatureDefSlot,
    SubGraphSlot,
    TensorMapSlot,
)
from odt.core.formats.flatbuffer.subgraphs import subgraphs_of
from odt.core.model.graph import MAX_NAME, Graph, Node, Tensor
from odt.core.model.integer_operators import LSTM
from odt.core.model.model import Body, Model, Signature
from odt.core.model.topological_order import topological_order
from odt.core.model.variables import INITIALIZE, Key, Variable, assigned_values
from odt.errors import ModelError, OptionError, one_line
from odt.kernels.geometry.quantize import Quantization
from odt.kernels.rows.opdef import Array

HIDDEN = 4  # position among the intermediate tensors of an LSTM: the input of its projection


def parse_model(
    data: memoryview, name: str, signature: str | None = None, subgraph: int = 0
) -> Model:
    """Parses and checks a model in memory.

    Args:
        data: all bytes of the file, read-only.
        name: the file's name in messages.
        signature, subgraph: as for `read_model`.

    Raises:
        ModelError: if the bytes are no model, or break a rule.
        OptionError: if there is no such signature.
    """
    source = FlatBuffer(name, data)
    identifier = bytes(data[4:8])
    if identifier not in FORMATS:
        from odt.core.formats.file_kinds import other_kind

        kind = other_kind(data)
        if kind is not None:
            raise ModelError(
                f"{name}: must be a .tflite, .circle or .onnx model, but is "
                f"{kind.instead_of_model(name)}"
            )
        raise ModelError(
            f"{name}: must be a .tflite, .circle or .onnx model, but is none: bytes 4 to 7 of "
            f".tflite and .circle must be {' or '.join(i.decode() for i in FORMATS)}, but got "
            f"{identifier!r}."
        )
    root = source.root()
    spans = tuple(_span(t, source) for t in root.tables(ModelSlot.BUFFERS, "buffer"))
    graphs = list(root.tables(ModelSlot.SUBGRAPHS, "subgraph"))
    if not graphs:
        raise ModelError(f"{name}: a model must have a subgraph, but got none")
    code_tables = root.tables(ModelSlot.OPERATOR_CODES, "operator code")
    codes = [_operator_code(t, FORMATS[identifier]) for t in code_tables]
    signature_tables = root.tables(ModelSlot.SIGNATURE_DEFS, "signature")
    signatures = tuple(_signature(t, len(graphs)) for t in signature_tables)
    if signature is not None:
        subgraph = _subgraph_of(signatures, signature)
    main = _body(graphs[subgraph], spans, codes, name)
    main = replace(main, graph=_with_aliases(main.graph, subgraph, signatures))
    metadata: dict[str, int] = {}
    for t in root.tables(ModelSlot.METADATA, "metadata"):
        buffer = below(t, t.number(MetadataSlot.BUFFER, "I"), "buffer", len(spans))
        metadata.setdefault(t.string(MetadataSlot.NAME, "name"), buffer)
    return Model(
        path=name,
        format=FORMATS[identifier],
        data=data,
        graph=main.graph,
        metadata=metadata,
        spans=spans,
        quantization=main.quantization,
        sparsity=main.sparsity,
        signatures=signatures,
        subgraph=subgraph,
        signature=signature,
        subgraphs=len(graphs),
        description=root.string(ModelSlot.DESCRIPTION, "description"),
        version=root.number(ModelSlot.VERSION, "I"),
        variables=_initial_values(main.graph, graphs, codes, spans),
        bodies=_bodies(main, graphs, spans, codes, name),
    )


def _initial_values(
    graph: Graph, graphs: Sequence[Table], codes: list[str], spans: Spans
) -> Mapping[Key, Variable]:
    """Reads the values that the subgraphs of CALL_ONCE assign to variables."""
    values: dict[Key, Variable] = {}
    read = set[int]()
    for node in graph.nodes:
        if node.op != INITIALIZE:
            continue
        k = int(node.options["init_subgraph_index"])
        if not 0 < k < len(graphs):
            raise ModelError(
                f"{graph.name}: operator {node.origin} ({node.op}): its subgraph must be from 1 to "
                f"{len(graphs) - 1}, but got {k}."
            )
        if k not in read:
            body = _body(graphs[k], spans, codes, graph.name)
            values.update(assigned_values(body.graph, k, body.quantization))
        read.add(k)
    return values


def _subgraph_of(signatures: Sequence[Signature], key: str) -> int:
    """Returns the number of a signature's subgraph.

    Raises:
        OptionError: if there is no such signature.
    """
    for signature in signatures:
        if signature.key == key:
            return signature.subgraph
    names = ", ".join(s.key for s in signatures) or "none"
    raise OptionError("signature", f"must be one of the model's signatures, {names}", key)


def _body(table: Table, spans: Spans, codes: list[str], name: str) -> Body:
    """Reads a subgraph."""
    tensors, quantization, sparsity = read_tensors(table, spans)
    graph = _graph(table, codes, tensors, name)
    if any(node.op == LSTM for node in graph.nodes):
        operators = [*table.tables(SubGraphSlot.OPERATORS, "operator")]
        nodes = (_with_hidden(n, operators[n.origin], quantization) for n in graph.nodes)
        graph = replace(graph, nodes=tuple(nodes))
    return Body(graph, quantization, sparsity)


def _with_hidden(node: Node, table: Table, quantization: Mapping[int, Quantization]) -> Node:
    """Adds scale and zero point of the input of a quantized LSTM's projection, as an option."""
    if node.op != LSTM:
        return node
    intermediates = table.numbers(OperatorSlot.INTERMEDIATES, "intermediates")
    if len(intermediates) <= HIDDEN or intermediates[HIDDEN] not in quantization:
        return node
    input_quantization = quantization[intermediates[HIDDEN]]
    hidden = float(input_quantization.scale[0]), int(input_quantization.zero_point[0])
    return replace(node, options={**node.options, "hidden": hidden})


def _bodies(
    main: Body, graphs: Sequence[Table], spans: Spans, codes: list[str], name: str
) -> dict[int, Body]:
    """Reads the subgraphs that operators run."""
    bodies: dict[int, Body] = {}
    waiting = [main]
    while waiting:
        for node in waiting.pop().graph.nodes:
            numbers = subgraphs_of(node.op, node.options)
            if node.op == INITIALIZE:
                numbers = iter([int(node.options["init_subgraph_index"])])
            for k in numbers:
                if not 0 <= k < len(graphs):
                    raise ModelError(
                        f"{name}: operator {node.origin} ({node.op}): its subgraph must be below "
                        f"{len(graphs)}, but got {k}. {DAMAGED}"
                    )
                if k not in bodies:
                    bodies[k] = _body(graphs[k], spans, codes, name)
                    waiting.append(bodies[k])
    return bodies


def _span(table: Table, source: FlatBuffer) -> tuple[int, int]:
    """Returns (offset, size) of a buffer; models beyond 2 GiB hold buffers after the flatbuffer."""
    start, size = table.vector(BufferSlot.DATA, 1, "data")
    if size:
        return start, size
    start, size = table.number(BufferSlot.OFFSET, "Q"), table.number(BufferSlot.SIZE, "Q")
    if start <= 1 or not size:
        return 0, 0
    if start + size > source.size:
        raise table.error(
            f"its bytes must end within the file's {source.size}, "
            f"but got {size} bytes at offset {start}"
        )
    return start, size


def _operator_code(table: Table, file_format: str) -> str:
    """Returns the name of an operator code; `CUSTOM:name` for a custom operator."""
    code = operator_code(
        table.number(OperatorCodeSlot.DEPRECATED_BUILTIN_CODE, "b"),
        table.number(OperatorCodeSlot.BUILTIN_CODE, "i"),
    )
    name = operator_name(code) if code >= 0 or file_format == "circle" else None
    if name is None:
        text = f"must be an operator of the {file_format} schema, but got code {code}"
        raise unknown_code(table, code, text)
    if name != "CUSTOM":
        return name
    custom = table.string(OperatorCodeSlot.CUSTOM_CODE, "custom code")
    return f"CUSTOM:{one_line(custom, MAX_NAME)}"


def _signature(table: Table, subgraphs: int) -> Signature:
    """Reads a signature of a model with this number of subgraphs."""
    inputs = _arguments(table, SignatureDefSlot.INPUTS, "input")
    outputs = _arguments(table, SignatureDefSlot.OUTPUTS, "output")
    number = table.number(SignatureDefSlot.SUBGRAPH_INDEX, "I")
    subgraph = below(table, number, "subgraph", subgraphs)
    return Signature(table.string(SignatureDefSlot.SIGNATURE_KEY, "key"), inputs, outputs, subgraph)


def _arguments(table: Table, slot: int, what: str) -> dict[str, int]:
    """Returns the inputs or outputs of a signature: name → tensor."""
    return {
        t.string(TensorMapSlot.NAME, "name"): t.number(TensorMapSlot.TENSOR_INDEX, "I")
        for t in table.tables(slot, what, f"{table.where}, ")
    }


def _with_aliases(graph: Graph, subgraph: int, signatures: Sequence[Signature]) -> Graph:
    """Adds the names of inputs and outputs in the signatures of a subgraph."""
    aliases: dict[int, list[str]] = {}
    entries: dict[int, int] = {}
    used = [signature for signature in signatures if signature.subgraph == subgraph]
    ends = [end for s in used for end in ((s.inputs, graph.inputs), (s.outputs, graph.outputs))]
    for names, tensors_of_graph in ends:
        for entry, (name, i) in enumerate(names.items()):
            if i in tensors_of_graph:
                entries.setdefault(i, entry)
                aliases.setdefault(i, []).append(one_line(name, MAX_NAME))
    tensors = (
        replace(t, aliases=tuple(aliases[i]), entry=entries[i]) if i in aliases else t
        for i, t in enumerate(graph.tensors)
    )
    return replace(graph, tensors=tuple(tensors)) if aliases else graph


def _graph(table: Table, codes: list[str], tensors: list[Tensor], name: str) -> Graph:
    """Returns the graph of a subgraph with its tensors, in an order in which nodes can run."""
    inputs = table.numbers(SubGraphSlot.INPUTS, "inputs")
    outputs = table.numbers(SubGraphSlot.OUTPUTS, "outputs")
    operators = table.tables(SubGraphSlot.OPERATORS, "operator")
    nodes = [_node(t, i, codes) for i, t in enumerate(operators)]
    check_arities(name, nodes)
    results = {*inputs, *(i for node in nodes for i in node.outputs)}
    tensors = [_with_empty_data(t, i in results) for i, t in enumerate(tensors)]
    constants = {i for i, t in enumerate(tensors) if t.data is not None or t.variable}
    ordered = topological_order(nodes, constants.union(inputs))
    try:
        return Graph(tuple(tensors), ordered, inputs, outputs, name)
    except ModelError as e:
        raise ModelError(f"{name}: {e}") from e


def _node(table: Table, position: int, codes: list[str]) -> Node:
    number = table.number(OperatorSlot.OPCODE_INDEX, "I")
    op = codes[below(table, number, "operator code", len(codes))]
    table.where += f" ({op})"
    options: Mapping[str, Any] = read_options(table, op)
    inputs = table.numbers(OperatorSlot.INPUTS, "inputs")
    outputs = table.numbers(OperatorSlot.OUTPUTS, "outputs")
    return Node(op, inputs, outputs, options, position)


def _with_empty_data(tensor: Tensor, is_result: bool) -> Tensor:
    """Adds the data of an empty constant, which has no bytes in the file."""
    if is_result or tensor.spec.size or tensor.data is not None or tensor.variable:
        return tensor
    empty: Array = np.empty(tensor.spec.shape, tensor.spec.dtype)
    empty.flags.writeable = False
    return Tensor(
        tensor.name, tensor.spec, tensor.signature, empty, tensor.buffer, tensor.quantized
    )
