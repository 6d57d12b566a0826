"""Topological order: each operator of a file follows the operators whose results it reads."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from odt.core.model.graph import Node


def topological_order(nodes: Sequence[Node], sources: AbstractSet[int]) -> tuple[Node, ...]:
    """Sorts nodes topologically and otherwise keeps their order.

    Nodes of a cyclic graph keep their order; Graph then raises an error.

    Args:
        nodes: nodes of a graph.
        sources: tensors that no node must compute.
    """
    producer = {i: k for k, node in enumerate(nodes) for i in node.outputs if i not in sources}
    if all(producer.get(i, -1) < k for k, node in enumerate(nodes) for i in node.inputs):
        return tuple(nodes)  # as most files have them
    import heapq  # few files need it

    readers: dict[int, list[int]] = {}
    missing = [0] * len(nodes)  # for each node, nodes before it that are not sorted yet
    for k, node in enumerate(nodes):
        for source in {producer[i] for i in node.inputs if i in producer}:
            readers.setdefault(source, []).append(k)
            missing[k] += 1
    ready = [k for k, count in enumerate(missing) if not count]
    order: list[int] = []
    while ready:
        k = heapq.heappop(ready)
        order.append(k)
        for reader in readers.get(k, ()):
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    return tuple(nodes[k] for k in order) if len(order) == len(nodes) else tuple(nodes)
