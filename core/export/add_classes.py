"""Adds classes to a classifier: rows for the weights of its last layer.

Operators and tensors keep their positions, names and values. Class names in the model's metadata
grow too, as core/export/head_metadata.py says; training info stays.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from odt.core.export.head_metadata import kept_metadata, with_archive
from odt.core.export.kept_tables import buffer_entry, model_tables, packed_model
from odt.core.lowering.class_head import ClassHead
from odt.core.model.graph import ABSENT
from odt.core.model.reader import Model, parse_model
from odt.core.model.record import ENTRY
from odt.core.model.tflite_metadata import NAME
from odt.errors import UnsupportedError


def add_classes(model: Model, head: ClassHead, count: int, names: Sequence[str]) -> Model:
    """Adds classes, whose weights are 0, to the last layer of a classifier.

    Args:
        model: the classifier.
        head: its last layer.
        count: number of new classes.
        names: names of all classes, old and new; empty if they are not known.

    Returns:
        The new model, which has the old one's path.

    Raises:
        UnsupportedError: if the weights of the last layer are not stored as float32.
        DataError: if the preprocessing record in the model's metadata is damaged.
        LostFileError: if the model's file became shorter.
    """
    tensors = model.graph.tensors
    for i in (head.weights, head.bias):
        if i != ABSENT and (tensors[i].data is None or tensors[i].spec.dtype != np.float32):
            raise UnsupportedError(
                f"{model.path}: the weights of the last layer must be stored as float32 to add "
                f"classes, but are not. Export the model with `float_weights=True`."
            )
    tables = model_tables(model)
    buffers = tables["buffers"]
    graph = tables["subgraphs"][0]
    for i in (head.weights, head.bias):
        if i != ABSENT:
            old = tensors[i].data
            assert old is not None
            rows = np.concatenate([old, np.zeros((count, *old.shape[1:]), np.float32)])
            table = graph["tensors"][i]
            table["shape"], table["buffer"] = rows.shape, len(buffers)
            table.pop("shape_signature", None)
            buffers.append(buffer_entry(rows))
    for i in head.outputs:
        for name in ("shape", "shape_signature"):
            shape = graph["tensors"][i].get(name, ())
            if len(shape):
                graph["tensors"][i][name] = [*shape[:-1], head.classes + count]
    output = tensors[head.outputs[-1]].name
    entries, archive = kept_metadata(model, range(len(model.graph.inputs)), output, names)
    for name in {ENTRY, NAME} & entries.keys():
        buffers[model.metadata[name]] = buffer_entry(entries[name])
    _drop_unused(tables)
    packed = packed_model(model, tables)
    model.check_file()
    return parse_model(memoryview(with_archive(packed, archive)), model.path)


def _drop_unused(tables: dict[str, Any]) -> None:
    """Empties the buffers of the old weights, unless something else refers to them."""
    used = {t.get("buffer", 0) for g in tables["subgraphs"] for t in g["tensors"]}
    used |= {entry.get("buffer", 0) for entry in tables.get("metadata", ())}
    used |= set(map(int, tables.get("metadata_buffer", ())))
    for k in set(range(len(tables["buffers"]))) - used:
        tables["buffers"][k] = {}
