"""Writes a model that keeps some operators of another one, with the tables that these need."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from odt.core.formats.flatbuffer.appended_zip import appended_archive, shift_archive
from odt.core.formats.flatbuffer.flatbuffer import FlatBuffer
from odt.core.formats.flatbuffer.operator_versions import raise_versions
from odt.core.formats.flatbuffer.own_activations import split_fused_tanh
from odt.core.formats.flatbuffer.reader import FORMATS, parse_model
from odt.core.formats.flatbuffer.schema_tables import pack, unpack
from odt.core.lowering.normalize.inline import apply_masks, constant_variables
from odt.core.model.graph import Graph
from odt.core.model.model import Model
from odt.core.model.training_info import METADATA_NAME as TRAINING_INFO
from odt.core.model.variables import STATE
from odt.errors import ModelError, UnsupportedError, one_line, warn
from odt.kernels.rows.opdef import Array

MAX_BYTES = 2**31 - 2**24  # limit of a flatbuffer, with space for its tables
INITIAL = "init_subgraph_index"  # option of CALL_ONCE
MAX_NAMES = 200  # characters of the names of signatures in a warning
TENSOR_LISTS = ("inputs", "outputs", "intermediates")  # of an operator


class KeptTables:
    """The tables of a model's subgraph with some of its operators.

    Attributes:
        source: the model.
        model: table Model of the schema, as `unpack` gives it.
        graph: the subgraph's table; the others are those of CALL_ONCE.
        number: old number of each kept tensor → new number.
        signatures: signatures of the subgraph.
    """

    def __init__(self, source: Model, positions: Collection[int], tensors: Collection[int]) -> None:
        """Keeps operators; renumbers tensors, buffers and operator codes.

        Args:
            source: the model.
            positions: positions of the operators in the file.
            tensors: further tensors to keep.

        Raises:
            ModelError: if an operator's tensor does not exist.
        """
        self.source = source
        _warn_of_signatures(source)
        self.model: dict[str, Any] = unpack(FlatBuffer(source.path, source.data).root(), "Model")
        graphs = self.model["subgraphs"]
        self.signatures: list[dict[str, Any]] = []
        for signature in self.model.get("signature_defs", ()):
            if signature.get("subgraph_index", 0) == source.subgraph:
                self.signatures.append({**signature, "subgraph_index": 0})
        self.graph = graphs[source.subgraph]
        self.model.pop("metadata_buffer", None)  # as metadata, without names
        operators = [self.graph["operators"][k] for k in sorted(positions)]
        self.model["subgraphs"] = [self.graph, *_initializers(graphs, operators)]
        lists = [o[name] for o in operators for name in TENSOR_LISTS if name in o]
        used = {*tensors, *(int(i) for numbers in lists for i in numbers)} - {-1}
        count = len(self.graph["tensors"])
        if not used <= set(range(count)):
            raise ModelError(
                f"{source.path}: an operator's tensors must be below {count}, "
                f"but got {max(used - set(range(count)))}"
            )
        self.number = {i: k for k, i in enumerate(sorted(used))} | {-1: -1}
        self._renumber(operators)

    def _renumber(self, operators: list[dict[str, Any]]) -> None:
        graph, model, used = self.graph, self.model, sorted(self.number.keys() - {-1})
        graph["tensors"] = [graph["tensors"][i] for i in used]
        graph["inputs"] = [self.number[int(i)] for i in graph.get("inputs", ()) if i in used]
        graph["operators"] = operators
        tensors = [t for g in model["subgraphs"] for t in g.get("tensors", ())]
        all_operators = [o for g in model["subgraphs"] for o in g.get("operators", ())]
        buffers = sorted({0, *(t.get("buffer", 0) for t in tensors)})
        codes = sorted({o.get("opcode_index", 0) for o in all_operators})
        for tensor in tensors:
            tensor["buffer"] = buffers.index(tensor.get("buffer", 0))
        for operator in all_operators:
            operator["opcode_index"] = codes.index(operator.get("opcode_index", 0))
        for operator in operators:
            for name in TENSOR_LISTS:
                if name in operator:
                    operator[name] = [self.number[int(i)] for i in operator[name]]
        spans = self.source.spans or ((0, 0),)  # a file without buffers has buffer 0
        model["buffers"] = []
        for offset, size in (spans[k] for k in buffers):
            model["buffers"].append(buffer_entry(self.source.data[offset : offset + size]))
        model["operator_codes"] = [model["operator_codes"][k] for k in codes]

    def make_constants(self, values: Mapping[int, Array]) -> None:
        """Makes constants of kept tensors that no kept operator computes.

        Args:
            values: old number of a tensor → its values.
        """
        for i, data in values.items():
            if i in self.number:
                tensor = self.graph["tensors"][self.number[i]]
                tensor.pop("shape_signature", None)
                tensor["shape"] = list(data.shape)
                tensor["buffer"] = self.buffer(data.tobytes())

    def buffer(self, data: bytes) -> int:
        """Adds a buffer; returns its number."""
        self.model["buffers"].append(buffer_entry(data))
        return len(self.model["buffers"]) - 1

    def metadata(self, entries: dict[str, bytes]) -> None:
        """Replaces all metadata."""
        self.model["metadata"] = [
            {"name": name, "buffer": self.buffer(data)} for name, data in entries.items()
        ]


def _initializers(
    graphs: list[dict[str, Any]], operators: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Returns the subgraphs of CALL_ONCE operators, whose options get their new numbers."""
    numbers: dict[int, int] = {}  # old number → new number
    for operator in operators:
        options = operator.get("builtin_options") or {}
        if INITIAL in options:
            number = numbers.setdefault(int(options[INITIAL]), len(numbers) + 1)
            options[INITIAL] = number
    return [graphs[k] for k in numbers]


def _warn_of_signatures(source: Model) -> None:
    """Warns of signatures of other subgraphs, which are left out."""
    names = [s.key for s in source.signatures if s.subgraph != source.subgraph]
    if names:
        what = "signature" if len(names) == 1 else "signatures"
        warn(
            f"{source.path}: the new model has one subgraph, without the {what} "
            f"{one_line(', '.join(names), MAX_NAMES)}."
        )


def with_operators(
    source: Model, positions: Collection[int], constants: Mapping[int, Array] | None = None
) -> tuple[Model, Mapping[int, int]]:
    """Returns a model with some operators, its inputs, outputs and signatures.

    Tensors, buffers and operator codes that nothing uses are left out, also other subgraphs and
    their signatures, and training info, which numbers the operators.

    Args:
        source: the model.
        positions: positions of the operators in the file.
        constants: tensors that become constants, with their values.

    Returns:
        The model, and old number of each tensor → new number.
    """
    tables = KeptTables(source, positions, (*source.graph.inputs, *source.graph.outputs))
    tables.make_constants(constants or {})
    number = tables.number
    tables.graph["outputs"] = [number[i] for i in source.graph.outputs]
    tables.model["signature_defs"] = tables.signatures
    for signature in tables.signatures:
        for field in ("inputs", "outputs"):
            for entry in signature.get(field, ()):
                entry["tensor_index"] = number[entry.get("tensor_index", 0)]
    tables.metadata(
        {
            name: bytes(source.buffer(buffer))
            for name, buffer in source.metadata.items()
            if name != TRAINING_INFO
        }
    )
    packed = packed_model(source, tables.model)
    return parse_model(memoryview(packed), source.path), number


def without_variables(model: Model) -> tuple[Graph, dict[int, Array]]:
    """Returns a model's graph without variables whose values are known, and these values.

    They are known if operators assign nothing to the variables but their product with a mask.

    Returns:
        The graph, in which nothing computes the tensors that were read from variables; and the
        values by tensor. The graph of the file, and none, if a variable has an unknown value.
    """
    plain_model = apply_masks(model)
    read = {y: v.real for y, (_, v) in constant_variables(plain_model).items()}
    values = {y: real for y, real in read.items() if real is not None}
    if not values:
        return model.graph, {}
    nodes = tuple(n for n in plain_model.graph.nodes if n.op not in STATE)
    tensors = list(plain_model.graph.tensors)
    for y, value in values.items():
        tensors[y] = replace(tensors[y], data=value)
    return replace(plain_model.graph, nodes=nodes, tensors=tuple(tensors)), values


def model_tables(model: Model) -> dict[str, Any]:
    """Returns table Model of a file, with the bytes of its buffers, also of those beyond 2 GiB."""
    tables = unpack(FlatBuffer(model.path, model.data).root(), "Model")
    buffers = [buffer_entry(model.data[at : at + n]) for at, n in model.spans]
    tables["buffers"] = buffers or [{}]
    return tables


def buffer_entry(data: bytes | memoryview | Array) -> dict[str, Any]:
    """Returns table Buffer with bytes, or with those of an array in the file's byte order."""
    if isinstance(data, np.ndarray):
        little = np.ascontiguousarray(data, data.dtype.newbyteorder("<"))
        data = little.reshape(-1).view(np.uint8).data
    return {"data": np.frombuffer(data, np.uint8)} if len(data) else {}


def packed_model(source: Model, tables: dict[str, Any], archive: bytes | None = None) -> bytes:
    """Serialises the tables of a model, so that runtimes compute it as it is meant.

    Versions of operators are raised to what they need, and fused TANHs get operators of their own.

    Args:
        source: model with the format of the new one, and the name in messages.
        tables: table Model of the schema, as `unpack` gives it.
        archive: zip archive for the end of the file, with offsets that count from its beginning,
            empty for none; None for that of the source.

    Raises:
        UnsupportedError: if the file would be too large.
    """
    import flatbuffers

    split_fused_tanh(tables)
    raise_versions(tables)
    builder = flatbuffers.Builder(1024)
    identifier = next(i for i, name in FORMATS.items() if name == source.format)
    try:
        builder.Finish(pack(builder, "Model", tables), identifier)
    except flatbuffers.builder.BuilderSizeError as e:
        raise UnsupportedError(
            f"{source.path}: the new model must be below {MAX_BYTES} bytes, but got more"
        ) from e
    packed = bytes(builder.Output())
    if archive is None:
        archive = appended_archive(source.data)
    return packed + shift_archive(archive, len(packed)) if archive else packed
