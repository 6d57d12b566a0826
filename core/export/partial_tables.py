"""The tables of a model with some of the operators of another one."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from odt.core.export.model_tables import buffer_entry, packed_model
from odt.core.formats.flatbuffer.flatbuffer import FlatBuffer
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.formats.flatbuffer.schema_tables import unpack
from odt.core.lowering.normalize.inline import apply_masks, constant_variables
from odt.core.model.graph import ABSENT, Graph
from odt.core.model.model import Model
from odt.core.model.training_info import METADATA_NAME as TRAINING_INFO
from odt.core.model.variables import STATE
from odt.errors import ModelError, one_line, warn
from odt.kernels.rows.opdef import Array

INITIALIZER = "init_subgraph_index"  # option of CALL_ONCE
MAX_NAMES = 200  # characters of the names of signatures in a warning
TENSOR_LISTS = ("inputs", "outputs", "intermediates")  # of an operator


def block_scales(tensor: Mapping[str, Any]) -> dict[str, int]:
    """Returns the tensors with the scales and the zero points of a tensor's blocks, by field."""
    details = tensor.get("quantization", {}).get("details", {})
    numbers = {name: int(details.get(name, ABSENT)) for name in ("scales", "zero_points")}
    return {name: i for name, i in numbers.items() if i != ABSENT}


class PartialTables:
    """The tables of a model's subgraph with some of its operators.

    Attributes:
        source: the model.
        model: table Model of the schema, as `unpack` returns it.
        graph: the subgraph's table; the others are those of CALL_ONCE.
        number: old number of each tensor that stays → new number.
        signatures: signatures of the subgraph.
    """

    def __init__(self, source: Model, positions: Collection[int], tensors: Collection[int]) -> None:
        """Selects operators; renumbers tensors, buffers and operator codes.

        Args:
            source: the model.
            positions: positions of the operators in the file.
            tensors: further tensors that stay.

        Raises:
            ModelError: if an operator's tensor does not exist.
        """
        self.source = source
        _warn_of_signatures(source)
        self.model: dict[str, Any] = unpack(FlatBuffer(source.path, source.data).root(), "Model")
        self.model.pop("metadata_buffer", None)  # a second list of the metadata's old buffers
        self.signatures: list[dict[str, Any]] = []
        for signature in self.model.get("signature_defs", ()):
            if signature.get("subgraph_index", 0) == source.subgraph:
                self.signatures.append({**signature, "subgraph_index": 0})
        graphs = self.model["subgraphs"]
        self.graph = graphs[source.subgraph]
        self.graph["operators"] = [self.graph["operators"][k] for k in sorted(positions)]
        initializers = _initializers(self.graph["operators"])
        self.model["subgraphs"] = [self.graph, *(graphs[k] for k in initializers)]
        self.number = self._tensor_numbers(tensors)
        _renumber_initializers(self.graph["operators"], initializers)
        self._renumber_tensors()
        self._renumber_operator_codes()
        self._renumber_buffers()

    def _tensor_numbers(self, tensors: Collection[int]) -> dict[int, int]:
        """Returns old number → new number of some tensors and those of the operators."""
        used = {*tensors}
        for operator in self.graph["operators"]:
            for name in TENSOR_LISTS:
                used.update(map(int, operator.get(name, ())))
        used.discard(ABSENT)
        for i in used & {*range(len(self.graph["tensors"]))}:
            used = used.union(block_scales(self.graph["tensors"][i]).values())
        count = len(self.graph["tensors"])
        if unknown := used - set(range(count)):
            raise ModelError(
                f"{self.source.path}: an operator's tensors must be below {count}, "
                f"but got {max(unknown)}"
            )
        return _new_numbers(used) | {ABSENT: ABSENT}

    def _renumber_tensors(self) -> None:
        """Drops the tensors that have no new number."""
        graph, number = self.graph, self.number
        graph["tensors"] = [graph["tensors"][i] for i in number if i != ABSENT]
        for tensor in graph["tensors"]:
            for name, i in block_scales(tensor).items():
                tensor["quantization"]["details"][name] = number[i]
        graph["inputs"] = [number[int(i)] for i in graph.get("inputs", ()) if int(i) in number]
        for operator in graph["operators"]:
            for name in TENSOR_LISTS:
                if name in operator:
                    operator[name] = [number[int(i)] for i in operator[name]]

    def _renumber_operator_codes(self) -> None:
        """Drops the operator codes of no operator."""
        operators = [o for graph in self.model["subgraphs"] for o in graph.get("operators", ())]
        number = _new_numbers(operator.get("opcode_index", 0) for operator in operators)
        for operator in operators:
            operator["opcode_index"] = number[operator.get("opcode_index", 0)]
        codes = self.model["operator_codes"]
        self.model["operator_codes"] = [codes[k] for k in number]

    def _renumber_buffers(self) -> None:
        """Drops the buffers of no tensor, except buffer 0, which has no bytes."""
        tensors = [t for graph in self.model["subgraphs"] for t in graph.get("tensors", ())]
        number = _new_numbers([0, *(tensor.get("buffer", 0) for tensor in tensors)])
        for tensor in tensors:
            tensor["buffer"] = number[tensor.get("buffer", 0)]
        spans = self.source.spans or ((0, 0),)  # a file without buffers has buffer 0
        self.model["buffers"] = []
        for offset, size in (spans[k] for k in number):
            self.model["buffers"].append(buffer_entry(self.source.data[offset : offset + size]))

    def make_constants(self, values: Mapping[int, Array]) -> None:
        """Makes constants of tensors that stay and that no operator computes any longer.

        Args:
            values: old number of a tensor → its values.
        """
        for i, data in values.items():
            if i in self.number:
                tensor = self.graph["tensors"][self.number[i]]
                tensor.pop("shape_signature", None)
                tensor["shape"] = list(data.shape)
                tensor["buffer"] = self.add_buffer(data.tobytes())

    def add_buffer(self, data: bytes) -> int:
        """Adds a buffer; returns its number."""
        self.model["buffers"].append(buffer_entry(data))
        return len(self.model["buffers"]) - 1

    def set_metadata(self, entries: Mapping[str, bytes]) -> None:
        """Replaces all metadata."""
        self.model["metadata"] = [
            {"name": name, "buffer": self.add_buffer(data)} for name, data in entries.items()
        ]


def _new_numbers(numbers: Iterable[int]) -> dict[int, int]:
    """Returns old number → new number, from 0 and in the same order."""
    return {old: new for new, old in enumerate(sorted(set(numbers)))}


def _initializers(operators: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """Returns old number → new number of the subgraphs of CALL_ONCE operators."""
    numbers: dict[int, int] = {}
    for operator in operators:
        options = operator.get("builtin_options") or {}
        if INITIALIZER in options:
            numbers.setdefault(int(options[INITIALIZER]), len(numbers) + 1)
    return numbers


def _renumber_initializers(
    operators: Sequence[Mapping[str, Any]], numbers: Mapping[int, int]
) -> None:
    """Changes the subgraphs in the options of CALL_ONCE operators."""
    for operator in operators:
        options = operator.get("builtin_options") or {}
        if INITIALIZER in options:
            options[INITIALIZER] = numbers[int(options[INITIALIZER])]


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

    Raises:
        ModelError: if an operator's tensor does not exist.
        UnsupportedError: if the file would be too large.
    """
    tables = PartialTables(source, positions, (*source.graph.inputs, *source.graph.outputs))
    tables.make_constants(constants or {})
    number = tables.number
    tables.graph["outputs"] = [number[i] for i in source.graph.outputs]
    tables.model["signature_defs"] = tables.signatures
    for signature in tables.signatures:
        for field in ("inputs", "outputs"):
            for entry in signature.get(field, ()):
                entry["tensor_index"] = number[entry.get("tensor_index", 0)]
    tables.set_metadata(
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
