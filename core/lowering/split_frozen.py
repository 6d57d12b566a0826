"""Cuts a lowered graph in two: a part that stays as it is, and the part that trains behind it."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from odt.core.lowering.sample_axis import mixed
from odt.core.model.graph import LoweredGraph


def frozen_end(
    graph: LoweredGraph, trained: Collection[int], ends: Collection[int]
) -> tuple[int, ...]:
    """The tensors in which the frozen part ends: it is as large as it can be.

    Frozen is what depends on a sample's own data and on nothing that trains. What depends on
    nothing but constants belongs to both parts.

    Args:
        graph: lowered.
        trained: constants that train.
        ends: tensors that are wanted for themselves: outputs, and what losses read.

    Returns:
        Tensors of the frozen part, or inputs of the graph, that the rest reads.
    """
    mixing = {node.outputs for node in mixed(graph)}
    moving, of_data = set(trained), set(graph.inputs)
    found: dict[int, None] = {}
    for node in graph.nodes:
        if of_data.intersection(node.inputs):
            of_data.update(node.outputs)
        if moving.intersection(node.inputs) or node.outputs in mixing:
            moving.update(node.outputs)
            found.update(dict.fromkeys(i for i in node.inputs if i in of_data and i not in moving))
    found.update(dict.fromkeys(i for i in ends if i in of_data and i not in moving))
    return tuple(found)


def begin_at(
    graph: LoweredGraph, tensors: Sequence[int], wanted: Collection[int] = ()
) -> LoweredGraph:
    """The part of a graph that makes its outputs from these tensors, which become its inputs.

    Args:
        graph: lowered.
        tensors: to begin at.
        wanted: tensors beside the outputs, which losses read.
    """
    needed, nodes = {*graph.outputs, *wanted}.difference(tensors), []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            nodes.append(node)
            needed.update(i for i in node.inputs if i not in tensors)
    return replace(graph, nodes=tuple(reversed(nodes)), inputs=tuple(tensors))
