"""Weights that share a buffer, which early versions of odt trained as one."""

from dataclasses import replace

from odt.core.checkpoints.progress import Progress
from odt.core.model.graph import Graph, first_of_buffer


def with_separate_weights(progress: Progress, graph: Graph) -> Progress:
    """Converts progress that ties weights of a shared buffer to progress with separate weights."""
    if not progress.tied_by_buffer:
        return progress
    shared, only = shared_buffers(graph), progress.trainable_tensors
    return replace(
        progress,
        trainable_tensors=only and tuple(k for i in only for k in shared.get(i, [i])),
        sparse=tuple((k, channels) for i, channels in progress.sparse for k in shared.get(i, [i])),
    )


def shared_buffers(graph: Graph) -> dict[int, list[int]]:
    """Maps each constant with a shared buffer to all constants of that buffer that nodes read."""
    read = {i for n in graph.nodes for i in n.inputs}
    first = first_of_buffer(graph)
    groups: dict[int, list[int]] = {}
    for i in read & first.keys():
        groups.setdefault(first[i], []).append(i)
    all_groups = {i: groups.get(f, [i]) for i, f in first.items()}
    return {i: sorted(group) for i, group in all_groups.items() if group != [i]}
