"""The final SOFTMAX or LOGISTIC of an output, whose logits a loss reads instead.

Operators that only change the shape may follow the activation, and a FAKE_QUANT. If the former
keep its rows intact, a pass moves the activation after them, so that the logits have the shape of
the output.
"""

from collections import Counter
from collections.abc import Mapping

from odt.core.model.graph import Graph, Node
from odt.core.model.integer_operators import CONVERSIONS
from odt.kernels.rows.opdef import TensorSpec

PROBABILITIES = ("SOFTMAX", "LOGISTIC")
# Operators that only change the shape: a row of probabilities stays one.
SHAPE_ONLY = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
KEEPING = (*SHAPE_ONLY, "FAKE_QUANT")  # after which values are those before, up to rounding
# Operators that move or select values of their first input.
MOVING = (
    "TRANSPOSE",
    "SLICE",
    "STRIDED_SLICE",
    "GATHER",
    "REVERSE_V2",
    "TILE",
    "CONCATENATION",
    "PACK",
    "UNPACK",
    "SPLIT_V",
    "RESIZE_BILINEAR",
    "RESIZE_NEAREST_NEIGHBOR",
)


def producer(graph: Graph, tensor: int) -> Node | None:
    """Returns the node that computes a tensor."""
    return next((n for n in graph.nodes if tensor in n.outputs), None)


def before_rounding(graph: Graph, tensor: int) -> int:
    """Returns the input of the FAKE_QUANT that computes a tensor; the tensor without one."""
    node = producer(graph, tensor)
    return node.inputs[0] if node is not None and node.op == "FAKE_QUANT" else tensor


def producing_operator(graph: Graph, output: int) -> Node | None:
    """Returns the node that computes an output's values, which may be reshaped and rounded."""
    node = producer(graph, output)
    while node is not None and node.op in KEEPING and node.inputs:
        node = producer(graph, node.inputs[0])
    return node


def probability_operator(graph: Graph, output: int) -> str:
    """Returns SOFTMAX or LOGISTIC if an output has its values, perhaps quantized; "" otherwise."""
    node = producer(graph, output)
    while node is not None and node.op in CONVERSIONS:
        node = producer(graph, node.inputs[0])
    return node.op if node is not None and node.op in PROBABILITIES else ""


def moved_activation(graph: Graph, output: int) -> Node | None:
    """Returns the SOFTMAX or LOGISTIC whose values other operators move to an output; or None."""
    makers = {i: node for node in graph.nodes for i in node.outputs}
    node = makers.get(output)
    moved = False
    while node is not None and node.op in (*KEEPING, *MOVING) and node.inputs:
        moved = moved or node.op in MOVING
        node = makers.get(node.inputs[0])
    return node if moved and node is not None and node.op in PROBABILITIES else None


def final_logits(graph: Graph) -> list[int]:
    """Returns inputs of a final SOFTMAX or LOGISTIC, which losses read and rewrites must keep."""
    makers = {i: node for node in graph.nodes for i in node.outputs}
    nodes = (makers.get(before_rounding(graph, i)) for i in graph.outputs)
    return [n.inputs[0] for n in nodes if n is not None and n.op in PROBABILITIES]


def movable_activations(graph: Graph, specs: Mapping[int, TensorSpec]) -> dict[int, list[Node]]:
    """Finds final activations that may move after the nodes that reshape their output.

    No other node may read the tensors in between. A SOFTMAX must have the same rows as the output.

    Args:
        graph: graph as in the file, or lowered.
        specs: computed specs of the graph's tensors.

    Returns:
        Output → the nodes from the activation to the output.
    """
    makers = {i: node for node in graph.nodes for i in node.outputs}
    readers = Counter([*graph.outputs, *(i for node in graph.nodes for i in node.inputs)])
    movable = {}
    for y in graph.outputs:
        nodes: list[Node] = []
        node = makers.get(y)
        while node is not None and node.op in SHAPE_ONLY and readers[node.inputs[0]] == 1:
            nodes.insert(0, node)
            node = makers.get(node.inputs[0])
        if nodes and node is not None and node.op in PROBABILITIES:
            before, after = specs[node.inputs[0]].shape, specs[y].shape
            if node.op == "LOGISTIC" or (len(after) > 1 and before[-1:] == after[-1:]):
                movable[y] = [node, *nodes]
    return movable
