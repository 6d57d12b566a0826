"""Frozen weights in checkpoints: those that could train, but do not."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from odt.core.checkpoints.checkpoint import FROZEN, Checkpoint, Entry
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Graph
from odt.core.recipe.inspection import inspect_graph
from odt.core.storage.reading import printable
from odt.errors import ModelError
from odt.kernels.rows.opdef import Array


def frozen_by_name(graphs: LoweredGraphs, trained: Collection[int] = ()) -> dict[str, int]:
    """Maps names to tensor indices; a repeated name has the index as a suffix.

    Args:
        graphs: lowered graphs of the model.
        trained: tensor indices of the weights that train, which are left out.
    """
    candidates = dict.fromkeys(i for each in inspect_graph(graphs).trained.values() for i in each)
    names = {i: graphs.graph.tensors[i].name or str(i) for i in candidates}
    uses = Counter(names.values())
    return {
        name if uses[name] == 1 else f"{name}#{i}": i
        for i, name in names.items()
        if i not in trained
    }


def with_frozen(checkpoint: Checkpoint, frozen: Mapping[str, Array]) -> Checkpoint:
    """Adds frozen weights to a checkpoint."""
    added = tuple(Entry(name, FROZEN, a.shape, a.dtype.name) for name, a in frozen.items())
    return replace(
        checkpoint,
        entries=(*checkpoint.entries, *added),
        arrays=(*checkpoint.arrays, *frozen.values()),
    )


def graph_with_frozen(checkpoint: Checkpoint, where: str, graphs: LoweredGraphs) -> Graph:
    """Returns the graph with the frozen weights of a checkpoint, the same graph if none differs.

    Raises:
        ModelError: if a frozen weight is not one of the model's.
    """
    named = [(k, e) for k, e in enumerate(checkpoint.entries) if e.role == FROZEN]
    if not named:
        return graphs.graph
    constants = frozen_by_name(graphs)
    tensors = list(graphs.graph.tensors)
    for k, entry in named:
        data = tensors[constants[entry.tensor]].real if entry.tensor in constants else None
        if data is None or (data.shape, data.dtype.name) != (entry.shape, entry.dtype):
            actual = "has no such weight" if data is None else f"has {data.shape} {data.dtype.name}"
            raise ModelError(
                f"{where}: frozen weight {printable(entry.tensor)}: must be one of the model, "
                f"but got {entry.shape} {entry.dtype}, and the model {actual}."
            )
        if not checkpoint.is_nominal and not np.array_equal(checkpoint.arrays[k], data):
            i = constants[entry.tensor]
            tensors[i] = tensors[i].with_values(checkpoint.arrays[k])
    if all(new is old for new, old in zip(tensors, graphs.graph.tensors, strict=True)):
        return graphs.graph
    return replace(graphs.graph, tensors=tuple(tensors))
