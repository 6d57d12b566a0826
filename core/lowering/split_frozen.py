"""Splits a lowered graph into a frozen part and the trained part after it."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from odt.core.lowering.sample_axis import nodes_mixing_batch
from odt.core.model.graph import LoweredGraph


def frozen_end(
    graph: LoweredGraph, trained: Collection[int], ends: Collection[int]
) -> tuple[int, ...]:
    """Returns the tensors in which the largest possible frozen part ends.

    A tensor is frozen if it depends on its own sample and on nothing that trains. A tensor that
    depends only on constants belongs to both parts. The frozen part ends in integers where it
    computes them.

    Args:
        graph: the whole graph.
        trained: constants that train.
        ends: tensors that must be computed: outputs, and inputs of losses.

    Returns:
        Tensors of the frozen part, or inputs of the graph, that the other part reads.
    """
    mixing = {node.outputs for node in nodes_mixing_batch(graph)}
    trained_or_mixed, data_dependent = set(trained), set(graph.inputs)
    end: dict[int, None] = {}  # a set in the order in which the tensors are read

    def add_frozen(tensors: Collection[int]) -> None:
        frozen = (i for i in tensors if i in data_dependent and i not in trained_or_mixed)
        end.update(dict.fromkeys(frozen))

    for node in graph.nodes:
        if data_dependent.intersection(node.inputs):
            data_dependent.update(node.outputs)
        if trained_or_mixed.intersection(node.inputs) or node.outputs in mixing:
            trained_or_mixed.update(node.outputs)
            add_frozen(node.inputs)
    add_frozen(ends)
    dequantizers = [node for node in graph.nodes if node.op == "INTEGER_DEQUANTIZE"]
    integers = {node.outputs[0]: node.inputs[0] for node in dequantizers}
    return tuple(dict.fromkeys(integers.get(i, i) for i in end))


def begin_at(
    graph: LoweredGraph, tensors: Sequence[int], others: Collection[int] = ()
) -> LoweredGraph:
    """Returns the part of a graph that computes its outputs from some tensors.

    Args:
        graph: the whole graph.
        tensors: inputs of the part.
        others: tensors besides the outputs that must be computed, such as inputs of losses.
    """
    needed = {*graph.outputs, *others}.difference(tensors)
    nodes = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            nodes.append(node)
            needed.update(i for i in node.inputs if i not in tensors)
    return replace(graph, nodes=tuple(reversed(nodes)), inputs=tuple(tensors))
