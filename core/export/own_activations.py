"""Rewrites a file whose operators have a fused TANH, so that all runtimes compute it."""

import struct
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from odt.core.export.model_tables import buffer_entry, model_tables, rewritten
from odt.core.formats.flatbuffer.own_activations import has_fused_tanh, split_fused_tanh
from odt.core.formats.flatbuffer.training_info_buffer import trainable_span
from odt.core.model.model import Model
from odt.core.model.training_info import METADATA_NAME

T = TypeVar("T")


def needs_own_activations(model: Model) -> bool:
    """Whether a file has fused TANHs that runtimes do not compute."""
    return has_fused_tanh([model.graph, *(body.graph for body in model.bodies.values())])


def with_own_activations(model: Model) -> tuple[Model, list[int]]:
    """Returns a model of the same function, and the old positions that a TANH now follows."""
    tables = model_tables(model)
    positions = split_fused_tanh(tables)[model.subgraph]
    _renumber_training_info(model, tables, positions)
    return rewritten(model, tables), positions


def renumber(old: Model, new: Model, values: Mapping[int, T]) -> dict[int, T]:
    """Renumbers values by tensor; those of inlined subgraphs are behind the new tensors."""
    places = {place: i for i, place in new.places.items()}
    return {places.get(old.place(i), i): v for i, v in values.items()}


def new_positions(operators: Iterable[int], positions: Sequence[int]) -> tuple[int, ...]:
    """Returns the new positions of operators.

    Args:
        operators: old positions.
        positions: old positions that an operator was inserted after.
    """
    return tuple(k + bisect_left(positions, k) for k in operators)


def _renumber_training_info(model: Model, tables: dict[str, Any], positions: Sequence[int]) -> None:
    """Changes the positions of operators in the training info of a circle+."""
    index = model.metadata.get(METADATA_NAME)
    if index is None:
        return
    data = bytearray(model.buffer(index))
    start, count = trainable_span(bytes(data), model.path)
    old = struct.unpack_from(f"<{count}i", data, start)
    struct.pack_into(f"<{count}i", data, start, *new_positions(old, positions))
    tables["buffers"][index] = buffer_entry(bytes(data))
