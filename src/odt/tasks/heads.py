"""The heads of a detector: its last layers with weights."""

from collections.abc import Collection

from odt.core.model.graph import ABSENT, Graph


def head_operators(graph: Graph, tensors: Collection[int]) -> tuple[int, ...]:
    """Returns the positions of the last layers before some tensors: convolutions, dense layers.

    Args:
        graph: graph of the file.
        tensors: outputs of the heads.
    """
    makers = {i: node for node in graph.nodes for i in node.outputs}
    stored = {i: node.inputs[0] for i, node in makers.items() if node.op == "DEQUANTIZE"}
    heads, rest, seen = set[int](), list(tensors), set(tensors)
    while rest:
        node = makers.get(rest.pop())
        if node is None:
            continue
        if any(_is_weight(graph, stored.get(i, i)) for i in node.inputs):
            heads.add(node.origin)
            continue
        new = [i for i in node.inputs if i not in seen]
        seen.update(new)
        rest += new
    return tuple(sorted(heads))


def _is_weight(graph: Graph, i: int) -> bool:
    """Whether a tensor is a matrix or filter of real numbers, which may be quantized."""
    if i == ABSENT or graph.tensors[i].data is None:
        return False
    tensor = graph.tensors[i]
    is_real = tensor.spec.has_gradient or tensor.quantized
    return is_real and sum(n > 1 for n in tensor.spec.shape) > 1
