"""Cuts a part out of a model, and puts the weights of a trained part back into the model.

A part begins at the model's inputs or at tensors in its middle, and ends at its outputs or at
tensors in its middle. It keeps tensors, operators and names. The metadata entry ODT_PART says
which model the part is from (SHA-256 of the file) and which of its tensors the part's tensors are.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from odt.core.export.exporter import export_model
from odt.core.export.model_tables import packed_model
from odt.core.export.partial_tables import PartialTables
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.formats.flatbuffer.subgraphs import refuse_subgraphs
from odt.core.formats.flatbuffer.tflite_metadata import NAME as TFLITE_METADATA
from odt.core.lowering.normalize.inline import apply_masks, constant_variables, inline
from odt.core.model.dequantize import DequantizedGraph, dequantize_weights
from odt.core.model.graph import ABSENT, Graph, Tensor
from odt.core.model.model import Model
from odt.core.model.quantization_rules import has_quantized_activations, is_same_quantization
from odt.core.model.record import ENTRY as RECORD
from odt.core.model.training_info import METADATA_NAME as TRAINING_INFO
from odt.core.model.variables import HANDLE
from odt.core.storage.reading import whole_number
from odt.dataclass import dataclass
from odt.errors import ModelError, OptionError, UnsupportedError
from odt.kernels.geometry.quantize import Quantization
from odt.kernels.rows.opdef import Array

ENTRY = "ODT_PART"
# Metadata about the inputs, outputs and operators of a whole model.
WHOLE_MODEL_ENTRIES = (ENTRY, RECORD, TFLITE_METADATA, TRAINING_INFO)

Name = str | int


@dataclass(frozen=True, slots=True)
class Part:
    """A model that was cut out of another one.

    Attributes:
        model: the part.
        operators: positions of its operators in the other model.
    """

    model: Model
    operators: tuple[int, ...]


def cut(model: Model, after: Sequence[Name] = (), before: Sequence[Name] = ()) -> Part:
    """Cuts out the operators that compute some tensors from others.

    Signatures keep the names of the inputs and outputs that stay; new ones are named after
    their tensors. Variables that no operator assigns become constants with their initial values.
    Metadata about the whole model is left out: training info, preprocessing record, TFLite Model
    Metadata.

    Args:
        model: the model.
        after: names or numbers of tensors that become inputs; all others that the operators read
            stay inputs.
        before: names or numbers of tensors that become the outputs; empty for the model's outputs.

    Raises:
        OptionError: if a name fits no tensor or several, a tensor is a constant, the outputs do not
            depend on a new input or only through other new inputs, or no operator is left.
        UnsupportedError: if an operator of the part is control flow or refers to a variable that
            operators assign or that has no initial value.
        LostFileError: if the model's file became shorter.
    """
    model.check_flatbuffer("cut")
    plain_model = apply_masks(model)
    graph = plain_model.graph
    begins = _tensors(graph, "after", after)
    ends = _tensors(graph, "before", before) or list(graph.outputs)
    variables = constant_variables(plain_model)
    positions, reached = _between(graph, {*begins, *variables}, ends)
    for i in begins:
        if i not in reached:
            rule = "must be tensors that the outputs depend on"
            if i in _between(graph, {i, *variables}, ends)[1]:
                rule += ", not only through the other new inputs"
            raise OptionError("after", rule, graph.label(i))
    if not positions:
        names = ", ".join(map(graph.label, ends))
        raise OptionError("after, before", "must have operators between them", names)
    _check_operators(graph, positions)
    tables = PartialTables(model, positions, {*begins, *ends})
    number = tables.number
    values = {i: variable.real for i, (_, variable) in variables.items() if i not in begins}
    tables.make_constants({i: real for i, real in values.items() if real is not None})
    inputs = [i for i in graph.inputs if i in reached and i not in begins] + begins
    tables.graph["inputs"] = [number[i] for i in inputs]
    tables.graph["outputs"] = [number[i] for i in ends]
    tables.model["signature_defs"] = [
        _signature(signature, graph, number, inputs, ends) for signature in tables.signatures
    ]
    tensors = sorted(number.keys() - {ABSENT})
    origin = {"sha256": hashlib.sha256(model.data).hexdigest(), "tensors": tensors}
    entries = {
        name: bytes(model.buffer(buffer))
        for name, buffer in model.metadata.items()
        if name not in WHOLE_MODEL_ENTRIES
    }
    tables.set_metadata({**entries, ENTRY: json.dumps(origin).encode()})
    packed = packed_model(model, tables.model, archive=b"")
    model.check_file()
    return Part(parse_model(memoryview(packed), model.path), tuple(positions))


def _check_operators(graph: Graph, positions: Sequence[int]) -> None:
    """Raises UnsupportedError for control flow and variables in a part."""
    refuse_subgraphs(graph, positions, "a part", "Cut before or after it.")
    for node in graph.nodes:
        if node.op == HANDLE and node.origin in positions:
            raise UnsupportedError(
                f"{graph.name}: node {node.origin} ({node.op}): a part must not contain variables "
                "that operators assign or that have no initial value. Cut before or after it."
            )


def join(model: Model, parts: Sequence[Model], path: str | os.PathLike[str]) -> int:
    """Writes a model with the weights of trained parts; everything else in it stays.

    A changed weight that shares its buffer with a constant that stays gets a new buffer; then the
    file is packed again, with all other buffers and tables as they were.

    Args:
        model: the model that the parts were cut from.
        parts: parts, trained or not.
        path: the file to write.

    Returns:
        Number of constants that the parts changed.

    Raises:
        ModelError: if a part was not cut from the model, two parts changed one tensor to different
            values, or the file cannot be written.
        LostFileError: if a model's file became shorter.
    """
    model.check_flatbuffer("join")
    changes = _Changes(model)
    for part in parts:
        changes.add(part)
    export_model(model, changes.weights, path, quantizations=changes.quantizations)
    return len(changes.weights)


class _Changes:
    """Constants of a model that trained parts changed.

    In a model with quantized activations, constants have the types and quantizations of the file;
    in other models, those that can train are float32.

    Args:
        model: the model that the parts were cut from.

    Attributes:
        weights: tensor → new values.
        quantizations: tensor → new quantization.
    """

    def __init__(self, model: Model) -> None:
        self.weights: dict[int, Array] = {}
        self.quantizations: dict[int, Quantization] = {}
        self._model = model
        self._digest = hashlib.sha256(model.data).hexdigest()
        self._is_quantized = has_quantized_activations(model)
        inlined = inline(model)
        if self._is_quantized:
            whole = DequantizedGraph(model.graph, {})
        else:
            whole = dequantize_weights(inlined)
        self._graph = whole.graph
        # Stored tensor, or output of a READ_VARIABLE, → the tensor with its values in the graph.
        self._numbers = {stored: i for i, stored in whole.stored.items()}
        variables = _variable_constants(model, inlined)
        self._numbers |= {y: self._numbers.get(i, i) for y, i in variables.items()}

    def add(self, part: Model) -> None:
        """Adds the constants that a part changed.

        Raises:
            ModelError: if the part is of another model, or a value does not fit the model or the
                parts before.
        """
        constants = _part_constants(part, self._digest, self._is_quantized)
        for i, (values, quantization) in constants.items():
            label = f"{part.path}: {self._model.graph.label(i)}"
            number = self._numbers.get(i, i)
            old = _values(self._graph.tensors[number])
            old_quantization = self._model.quantization.get(i)
            if old is None or (old.shape, old.dtype) != (values.shape, values.dtype):
                raise ModelError(
                    f"{label}: must have the shape and dtype that it has in {self._model.path}, "
                    f"but got {values.shape} {values.dtype}"
                )
            same_scales = not self._is_quantized or is_same_quantization(
                old_quantization, quantization
            )
            if np.array_equal(old, values) and same_scales:
                continue
            self._check(number, label, values, quantization)
            self.weights[number] = values
            if self._is_quantized and quantization is not None:
                self.quantizations[number] = quantization

    def _check(
        self, number: int, label: str, values: Array, quantization: Quantization | None
    ) -> None:
        """Raises ModelError if masks of the model or the parts before exclude a new value."""
        unmasked = self._graph.tensors[number].places
        if unmasked is not None and np.count_nonzero(np.delete(values, unmasked)):
            raise ModelError(
                f"{label}: must be 0 where {self._model.path} multiplies it by a mask of 0, but "
                "got other values. Train the whole model, which keeps them 0."
            )
        earlier_values = self.weights.get(number)
        earlier_scales = self.quantizations.get(number)
        if (earlier_values is not None and not np.array_equal(earlier_values, values)) or (
            earlier_scales is not None and not is_same_quantization(earlier_scales, quantization)
        ):
            raise ModelError(
                f"{label}: must have the value that it has in the parts before, but got another "
                "one. Train parts that share weights one by one."
            )


def _variable_constants(model: Model, inlined: Model) -> dict[int, int]:
    """Returns output of a READ_VARIABLE → the constant with its value in the inlined model."""
    numbers = {place: i for i, place in inlined.places.items()}
    variables = constant_variables(apply_masks(model))
    return {y: numbers[v.subgraph, v.tensor] for y, (_, v) in variables.items()}


def _part_constants(
    part: Model, digest: str, integers: bool
) -> Mapping[int, tuple[Array, Quantization | None]]:
    """Returns the constants of a part: tensor of the whole model → values and quantization.

    Args:
        part: the part.
        digest: SHA-256 of the model that it is joined with.
        integers: whether values are as stored, because activations are quantized; otherwise those
            that can train are float32.
    """
    if ENTRY not in part.metadata:
        raise ModelError(
            f"{part.path}: must be a part made by odt cut, but has no metadata entry {ENTRY}"
        )
    origin = _origin(part)
    if origin["sha256"] != digest:
        raise ModelError(
            f"{part.path}: must be cut from the model that it is joined with, but got a part of "
            f"the file with SHA-256 {str(origin['sha256'])[:12]}…, not {digest[:12]}…"
        )
    dequantized = DequantizedGraph(part.graph, {}) if integers else dequantize_weights(part)
    numbers = origin["tensors"]
    constants = {}
    for i, tensor in enumerate(dequantized.graph.tensors):
        stored = dequantized.stored.get(i, i)  # results of DEQUANTIZE and DENSIFY are not stored
        is_stored = stored < len(numbers) and part.graph.tensors[stored].data is not None
        values = _values(tensor) if is_stored else None
        if values is not None:
            constants[numbers[stored]] = values, part.quantization.get(stored)
    return constants


def _values(tensor: Tensor) -> Array | None:
    """Returns the values of a constant: real numbers if it trains, the bytes of blocks of GGML."""
    return tensor.data if tensor.is_in_blocks else tensor.real


def _origin(part: Model) -> Any:
    """Returns the entry ODT_PART of a part; raises ModelError if it is damaged."""
    try:
        origin = json.loads(bytes(part.buffer(part.metadata[ENTRY])))
        tensors = origin["tensors"]
        valid = all(isinstance(i, int) and i >= 0 for i in tensors) and origin["sha256"]
        if not valid or len(tensors) > len(part.graph.tensors):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise ModelError(
            f"{part.path}: its metadata entry {ENTRY} must be as odt cut writes it, but is not"
        ) from None
    return origin


def _tensors(graph: Graph, field: str, names: Sequence[Name]) -> list[int]:
    """Returns the tensors with names or numbers, each once; `field` is the argument in messages."""
    return list(dict.fromkeys(_tensor(graph, field, name) for name in names))


def _tensor(graph: Graph, field: str, name: Name) -> int:
    """Returns the tensor with a name or number; `field` is the argument in messages."""
    matches = [i for i, tensor in enumerate(graph.tensors) if tensor.name == name]
    number = whole_number(str(name))
    if not matches and number is not None and number < len(graph.tensors):
        matches = [number]
    if not matches:
        rule = "must be names or numbers of tensors"
        raise OptionError(field, rule, name, "`Model.summary()` lists them.")
    if len(matches) > 1:
        numbers = " or ".join(map(str, matches))
        raise OptionError(
            field, f"must be the number {numbers}, as the tensors share this name", name
        )
    if graph.tensors[matches[0]].data is not None:
        rule = "must be tensors that operators compute, not constants"
        raise OptionError(field, rule, graph.label(matches[0]))
    return matches[0]


def _between(graph: Graph, begins: set[int], ends: Sequence[int]) -> tuple[list[int], set[int]]:
    """Returns positions of the operators that compute `ends` from `begins`, and their tensors."""
    makers = {i: node for node in graph.nodes for i in node.outputs}
    positions: set[int] = set()
    reached = set(ends)
    rest = list(ends)
    while rest:
        i = rest.pop()
        node = makers.get(i)
        if i in begins or node is None or node.origin in positions:
            continue
        positions.add(node.origin)
        inputs = [j for j in node.inputs if j != ABSENT]
        reached.update(inputs)
        rest += inputs
    return sorted(positions), reached


def _signature(
    old: dict[str, Any],
    graph: Graph,
    number: Mapping[int, int],
    inputs: Sequence[int],
    outputs: Sequence[int],
) -> dict[str, Any]:
    """Returns a signature with the part's inputs and outputs."""

    def entries(field: str, tensors: Sequence[int]) -> list[dict[str, Any]]:
        stored = {t.get("tensor_index", 0): t.get("name", b"") for t in old.get(field, ())}
        names = {i: stored.get(i) or (graph.tensors[i].name or f"{i}").encode() for i in tensors}
        counts = Counter(names.values())

        def unique(i: int) -> bytes:
            """Returns a name; a tensor may have that of another one in the old signature."""
            return names[i] if counts[names[i]] == 1 else names[i] + f"_{i}".encode()

        return [{"name": unique(i), "tensor_index": number[i]} for i in tensors]

    return {**old, "inputs": entries("inputs", inputs), "outputs": entries("outputs", outputs)}
