"""Adds classes to a classifier: rows for the weights of its last layer.

Operators and tensors keep their positions, names and values. Class names in the model's metadata
grow too (core/export/head_metadata.py); training info stays.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from odt.core.export.head_metadata import kept_metadata
from odt.core.export.model_tables import (
    buffer_entry,
    drop_unused_buffers,
    model_tables,
    packed_model,
)
from odt.core.export.shared_weights import readers_of
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.formats.flatbuffer.tflite_metadata import NAME
from odt.core.lowering.class_head import ClassHead
from odt.core.lowering.normalize.inline import apply_masks, constant_variables
from odt.core.model.graph import ABSENT
from odt.core.model.model import Model
from odt.core.model.packed_integers import pack_integers, packed_bits, unpack_constants
from odt.core.model.record import ENTRY
from odt.core.recipe.lowered_model import LoweredModel, lower_model
from odt.errors import UnsupportedError, warn
from odt.kernels.rows.opdef import Array

SHAPES = ("shape", "shape_signature")  # fields of a tensor


def add_classes(model: Model, head: ClassHead, count: int, names: Sequence[str]) -> Model:
    """Adds classes, whose weights are 0, to the last layer of a classifier.

    Weights keep their type in the file. Where each unit has a scale, new units get the largest.

    Args:
        model: the classifier.
        head: its last layer, in the graph that trains.
        count: number of new classes.
        names: names of all classes, old and new; empty if they are not known.

    Returns:
        The new model, which has the old one's path.

    Raises:
        UnsupportedError: if the weights of the last layer are sparse, or multiplied by a mask.
        DataError: if the preprocessing record in the model's metadata is damaged.
        LostFileError: if the model's file became shorter.
    """
    model.check_flatbuffer("add_classes")
    lowered = lower_model(model)
    _warn_of_signatures(lowered, head)
    tables = model_tables(model)
    buffers = tables["buffers"]
    for i in (head.weights, head.bias):
        if i != ABSENT:
            _add_rows(lowered, tables, i, head.classes, count)
    graph = tables["subgraphs"][model.subgraph]
    for i in _results_behind(model, head.operators):
        for name in SHAPES:
            shape = graph["tensors"][i].get(name, ())
            if len(shape) and shape[-1] == head.classes:
                graph["tensors"][i][name] = [*shape[:-1], head.classes + count]
    output = model.graph.tensors[model.graph.outputs[0]].name
    entries, archive = kept_metadata(model, range(len(model.graph.inputs)), output, names)
    for name in {ENTRY, NAME} & entries.keys():
        buffers[model.metadata[name]] = buffer_entry(entries[name])
    drop_unused_buffers(tables)
    packed = packed_model(model, tables, archive)
    model.check_file()
    return parse_model(memoryview(packed), model.path, model.signature)


def _warn_of_signatures(lowered: LoweredModel, head: ClassHead) -> None:
    """Warns of signatures of other subgraphs that read the last layer, and get no new classes."""
    stored = lowered.dequantized.stored
    weights = stored.get(head.weights, head.weights)
    if names := readers_of(lowered.unrolled, [weights]):
        warn(
            f"{lowered.file.path}: the signature {', '.join(names)} keeps its {head.classes} "
            "classes and their weights."
        )


def _add_rows(
    lowered: LoweredModel, tables: dict[str, Any], i: int, classes: int, count: int
) -> None:
    """Adds rows for new classes to weights or bias, and to the tensors that hold their values.

    Args:
        lowered: the classifier.
        tables: its tables, which are changed.
        i: weights or bias in the graph that trains.
        classes: number of old classes.
        count: number of new classes.
    """
    model = lowered.file
    if lowered.graph.tensors[i].places is not None:
        raise UnsupportedError(
            f"{model.path}: the weights of the last layer must be dense to add classes, but "
            "are sparse. Replace the layer with `replace_head`."
        )
    stored = lowered.dequantized.stored.get(i, i)
    number, k = lowered.unrolled.place(stored)
    table = tables["subgraphs"][number]["tensors"][k]
    table["buffer"] = len(tables["buffers"])
    tables["buffers"].append(buffer_entry(_with_rows(lowered.unrolled, stored, count)))
    _add_scales(table, classes, count)
    for tensor in (table, *_copies(model, tables, (number, k))):
        for name in SHAPES:
            shape = tensor.get(name, ())
            if len(shape):
                tensor[name] = [classes + count, *shape[1:]]


def _with_rows(model: Model, i: int, count: int) -> Array:
    """Returns a constant as the file stores it, with rows that stand for 0."""
    tensor, quantization = model.graph.tensors[i], model.quantization.get(i)
    old = unpack_constants(model.graph).tensors[i].data
    assert old is not None
    rows = np.zeros((count, *old.shape[1:]), old.dtype)
    if quantization is not None and len(quantization.zero_point) == 1:
        rows += quantization.zero_point.astype(old.dtype)
    longer = np.concatenate([old, rows])
    bits = packed_bits(tensor)
    return pack_integers(longer, bits) if bits else longer


def _add_scales(table: dict[str, Any], classes: int, count: int) -> None:
    """Adds scales and zero points for new units to a tensor that has one for each unit."""
    quantization = table.get("quantization", {})
    scale = quantization.get("scale", ())
    if classes > 1 and len(scale) == classes:
        quantization["scale"] = np.append(scale, [max(scale)] * count).astype("<f4")
        points = quantization.get("zero_point", ())
        if len(points):
            quantization["zero_point"] = np.append(points, [0] * count).astype("<i8")


def _copies(model: Model, tables: dict[str, Any], place: tuple[int, int]) -> list[dict[str, Any]]:
    """Returns the tensors that hold a constant's values: behind a DEQUANTIZE or in a variable."""
    number, k = place
    graph = model.graph if number == model.subgraph else model.bodies[number].graph
    results = [n.outputs[0] for n in graph.nodes if n.op == "DEQUANTIZE" and n.inputs == (k,)]
    tensors = [tables["subgraphs"][number]["tensors"][i] for i in results]
    for y, (_, variable) in constant_variables(apply_masks(model)).items():
        if (variable.subgraph, variable.tensor) == place:
            tensors.append(tables["subgraphs"][model.subgraph]["tensors"][y])
    return tensors


def _results_behind(model: Model, operators: Collection[int]) -> set[int]:
    """Returns the tensors that operators and those after them compute."""
    results = {i for n in model.graph.nodes if n.origin in operators for i in n.outputs}
    for node in model.graph.nodes:
        if not results.isdisjoint(node.inputs):
            results.update(node.outputs)
    return results
