"""Moves a final SOFTMAX or LOGISTIC after the operators that only change the shape.

The tensor that the last of these operators read then holds the logits, in the output's shape.
"""

from dataclasses import replace

from odt.core.lowering.final_activation import movable_activations
from odt.core.lowering.graph_builder import GraphBuilder
from odt.core.model.graph import Graph, LoweredGraph


def move_activations_last(graph: LoweredGraph, file: Graph) -> LoweredGraph:
    """Returns a graph without such operators after a final activation that may move."""
    movable = movable_activations(graph, {i: t.spec for i, t in enumerate(graph.tensors)})
    if not movable:
        return graph
    builder = GraphBuilder(graph)
    moving = {i for nodes in movable.values() for node in nodes for i in node.outputs}
    for node in graph.nodes:
        if not moving.intersection(node.outputs):
            builder.nodes.append(node)
            continue
        (y,) = node.outputs
        if y in movable:
            first, logits = movable[y][0], node.inputs[0]
            spec = builder.tensors[y].spec
            builder.tensors[logits] = replace(builder.tensors[logits], spec=spec)
            builder.view(first.inputs[0], logits, node.origin)
            builder.nodes.append(replace(first, inputs=(logits,), outputs=(y,)))
    return builder.graph()
