"""The SOFTMAX or LOGISTIC that an output ends in, and the logits that a loss reads instead.

Operators that only change the shape may follow it. Where they leave its rows whole, lowering puts
it behind them, so that the loss finds logits in the shape of the output.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from odt.core.lowering.graph_builder import GraphBuilder
from odt.core.model.graph import Graph, LoweredGraph, Node
from odt.kernels.opdef import TensorSpec

PROBABILITIES = ("SOFTMAX", "LOGISTIC")
SHAPE_ONLY = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")  # a distribution stays a distribution


def producer(graph: Graph, tensor: int) -> Node | None:
    """The node that makes a tensor."""
    return next((n for n in graph.nodes if tensor in n.outputs), None)


def producing_operator(graph: Graph, output: int) -> Node | None:
    """The node that an output's values come from, whatever shape they then got."""
    node = producer(graph, output)
    while node is not None and node.op in SHAPE_ONLY:
        node = producer(graph, node.inputs[0])
    return node


def final_logits(graph: Graph) -> list[int]:
    """What a final SOFTMAX or LOGISTIC reads: losses read it too, so rewrites must keep it."""
    makers = {i: node for node in graph.nodes for i in node.outputs}
    nodes = (makers.get(i) for i in graph.outputs)
    return [n.inputs[0] for n in nodes if n is not None and n.op in PROBABILITIES]


def movable_activations(graph: Graph, specs: Mapping[int, TensorSpec]) -> dict[int, list[Node]]:
    """Outputs whose SOFTMAX or LOGISTIC may come last, and the nodes from there to the output.

    Nothing else may read what is between. The rows of a SOFTMAX must be those of the output.

    Args:
        graph: as in the file, or lowered.
        specs: of its tensors, computed.
    """
    makers = {i: node for node in graph.nodes for i in node.outputs}
    readers = Counter([*graph.outputs, *(i for node in graph.nodes for i in node.inputs)])
    found = {}
    for y in graph.outputs:
        nodes: list[Node] = []
        node = makers.get(y)
        while node is not None and node.op in SHAPE_ONLY and readers[node.inputs[0]] == 1:
            nodes.insert(0, node)
            node = makers.get(node.inputs[0])
        if nodes and node is not None and node.op in PROBABILITIES:
            before, after = specs[node.inputs[0]].shape, specs[y].shape
            if node.op == "LOGISTIC" or (len(after) > 1 and before[-1:] == after[-1:]):
                found[y] = [node, *nodes]
    return found


def move_activations_last(graph: LoweredGraph) -> LoweredGraph:
    """The graph with a SOFTMAX or LOGISTIC behind operators that only change the shape.

    The tensor that the last of them read then holds the logits, in the shape of the output.

    Args:
        graph: lowered.
    """
    found = movable_activations(graph, {i: t.spec for i, t in enumerate(graph.tensors)})
    if not found:
        return graph
    builder = GraphBuilder(graph)
    gone = {i for nodes in found.values() for node in nodes for i in node.outputs}
    for node in graph.nodes:
        if not gone.intersection(node.outputs):
            builder.nodes.append(node)
            continue
        (y,) = node.outputs
        if y in found:
            first, logits = found[y][0], node.inputs[0]
            spec = builder.tensors[y].spec
            builder.tensors[logits] = replace(builder.tensors[logits], spec=spec)
            builder.view(first.inputs[0], logits, node.origin)
            builder.nodes.append(replace(first, inputs=(logits,), outputs=(y,)))
    return builder.graph()
