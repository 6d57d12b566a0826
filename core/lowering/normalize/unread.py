"""Drops operators whose results nothing reads."""

from collections.abc import Callable, Iterable, Sequence

from odt.core.model.graph import Node


def without_unread(
    nodes: Sequence[Node], outputs: Iterable[int], may_drop: Callable[[Node], bool]
) -> list[Node]:
    """Returns the nodes, in their order, without those that may be dropped and that nothing reads.

    Args:
        nodes: nodes, each behind those that it reads.
        outputs: tensors that are read outside.
        may_drop: whether a node may be dropped.
    """
    needed_nodes: list[Node] = []
    read = set(outputs)
    for node in reversed(nodes):
        if not may_drop(node) or not read.isdisjoint(node.outputs):
            needed_nodes.append(node)
            read.update(node.inputs)
    return needed_nodes[::-1]
