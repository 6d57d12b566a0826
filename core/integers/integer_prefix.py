"""Computes the frozen part of a graph in integers, up to the tensors that the trained part reads.

A tensor of the file that an operator computes holds real numbers in the graph that is trained and
in the integer graph (core/integers/integer_graph.py). The nodes of the trained part therefore read
the results of integer nodes, behind an INTEGER_DEQUANTIZE, as they read those of float nodes.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from odt.core.model.graph import ABSENT, Graph, Node


def with_integer_prefix(
    real: Graph, integers: Graph, number: Mapping[int, int], trained: Collection[int]
) -> Graph:
    """Returns a graph whose frozen part computes integers.

    Args:
        real: the graph that is trained.
        integers: integer graph of the same model.
        number: tensor of the first graph → tensor of the second one with the same real numbers.
        trained: constants that train.

    Returns:
        The graph, in which the tensors of `real` keep their indices; or `real` itself, if nothing
        is frozen, tensors keep values from one run to the next, or the integer graph does not
        compute what the trained part reads.
    """
    if any(tensor.variable for tensor in real.tensors):
        return real
    rest, frozen = _split(real, trained)
    results = {i for node in frozen for i in node.outputs}
    read = {i for node in rest for i in node.inputs}.union(real.outputs) & results
    if not read or not read <= number.keys():
        return real
    targets = {number[i] for i in read}
    nodes: list[Node] = []
    for node in reversed(integers.nodes):
        if targets.intersection(node.outputs):
            nodes.append(node)
            targets.update(node.inputs)
    if not {number[i] for i in read} <= {i for node in nodes for i in node.outputs}:
        return real
    tensors = list(real.tensors)
    index = {number[i]: i for i in (*results, *real.inputs) if i in number} | {ABSENT: ABSENT}
    origins = {i: node.origin for node in frozen for i in node.outputs}

    def index_of(i: int) -> int:
        """Returns the index in the new graph of a tensor of the integer graph."""
        if i not in index:
            tensors.append(integers.tensors[i])
            index[i] = len(tensors) - 1
        return index[i]

    prefix: list[Node] = []
    origin = 0  # of nodes before the first one that computes a tensor of the file
    for node in reversed(nodes):
        inputs, outputs = (tuple(map(index_of, t)) for t in (node.inputs, node.outputs))
        origin = max((origins[i] for i in outputs if i in origins), default=origin)
        prefix.append(replace(node, inputs=inputs, outputs=outputs, origin=origin))
    return replace(real, tensors=tuple(tensors), nodes=(*prefix, *rest))


def _split(graph: Graph, trained: Collection[int]) -> tuple[list[Node], list[Node]]:
    """Returns the nodes that depend on what trains or convert inputs, and the other nodes."""
    dependent = set(trained)
    rest: list[Node] = []
    frozen: list[Node] = []
    for node in graph.nodes:
        if dependent.intersection(node.inputs):
            dependent.update(node.outputs)
            rest.append(node)
        elif node.op == "INTEGER_DEQUANTIZE":
            rest.append(node)
        else:
            frozen.append(node)
    return rest, frozen
