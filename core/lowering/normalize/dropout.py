"""Dropout: multiplies the input of a fully connected layer by a random mask during training.

y = x m, m = ⌊u + 1 − p⌋ / (1 − p) with u uniform in [0, 1): each value is 0 with probability p, and
the others are scaled so that the mean stays. Validation and prediction compute the layer as it is.
Source: Srivastava et al., *Dropout* (2014), scaled during training as in Keras and torch.
"""

from collections.abc import Mapping
from dataclasses import replace

from odt.core.lowering.binding import row_of
from odt.core.model.graph import LoweredGraph, Node, Tensor
from odt.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Mask:
    """The mask of one layer.

    Attributes:
        tensor: index in the graph.
        weight: the layer's weights.
        use: how many layers before this one have the same weights.
        rate: probability p of a zero.
    """

    tensor: int
    weight: int
    use: int
    rate: float


def add_dropout(
    graph: LoweredGraph, rates: Mapping[int, float]
) -> tuple[LoweredGraph, tuple[Mask, ...]]:
    """Multiplies the inputs of fully connected layers by masks.

    Args:
        graph: a lowered graph.
        rates: weights of the layers → p.

    Returns:
        The graph, and its masks: tensors of the shape of the layers' inputs, to be filled.
    """
    tensors = list(graph.tensors)
    nodes: list[Node] = []
    masks: list[Mask] = []
    attrs = row_of("MUL").attrs({}, {})
    for node in graph.nodes:
        rate = rates.get(node.inputs[1], 0.0) if node.op == "FULLY_CONNECTED" else 0.0
        if not rate:
            nodes.append(node)
            continue
        x, w, *bias = node.inputs
        mask = len(tensors)
        use = sum(m.weight == w for m in masks)
        spec = graph.tensors[x].spec
        tensors += [Tensor("dropout mask", spec, variable=True), Tensor("", spec)]
        masks.append(Mask(mask, w, use, rate))
        nodes += [
            Node("MUL", (x, mask), (mask + 1,), {}, node.origin, attrs),
            replace(node, inputs=(mask + 1, w, *bias)),
        ]
    new_graph = replace(graph, tensors=tuple(tensors), nodes=tuple(nodes))
    return LoweredGraph(new_graph), tuple(masks)
