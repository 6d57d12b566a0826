"""Assigns scales and zero points to the activations of a graph."""

from collections.abc import Collection, Mapping

import numpy as np

from odt.core.model.graph import ABSENT, Graph, Node
from odt.core.model.integer_operators import PRESCRIBED, prescribed_quantization
from odt.core.model.quantization_rules import LAYERS
from odt.core.quantization.rules import ALL_SAME, SAME, Scheme
from odt.core.training.ranges import Range
from odt.kernels.geometry.quantize import Quantization, range_quantization
from odt.kernels.rows.opdef import Array


def quantized_nodes(graph: Graph, scheme: Scheme, float_positions: Collection[int]) -> list[Node]:
    """Returns the nodes that can compute integers: of the scheme, on float32, to float32.

    Args:
        graph: graph with float32 weights.
        scheme: types and operators.
        float_positions: positions of the operators that keep real numbers.
    """

    def is_float(i: int) -> bool:
        return graph.tensors[i].spec.dtype == np.float32

    return [
        node
        for node in graph.nodes
        if node.op in scheme.operators
        and node.origin not in float_positions
        and all(map(is_float, node.outputs))
        and float_activations(graph, node)
        and (node.op not in LAYERS or _has_constant_weights(graph, node))
    ]


def _has_constant_weights(graph: Graph, node: Node) -> bool:
    """Whether weights and bias of a layer are constants."""
    layer = LAYERS[node.op]
    operands = (node.inputs[layer.w], *node.inputs[layer.b : layer.b + 1])
    return all(not _is_activation(graph, i) for i in operands if i != ABSENT)


def _is_activation(graph: Graph, i: int) -> bool:
    return graph.tensors[i].data is None


def float_activations(graph: Graph, node: Node) -> list[int]:
    """Returns the float inputs of a node that are not constants."""
    inputs = [i for i in node.inputs if i != ABSENT]
    floats = [i for i in inputs if graph.tensors[i].spec.dtype.kind == "f"]
    return [i for i in floats if _is_activation(graph, i)]


def assign(
    graph: Graph, nodes: Collection[Node], ranges: Mapping[int, Range], scheme: Scheme
) -> dict[int, Quantization]:
    """Returns the quantization of the activations that nodes on integers read or compute.

    Operators that move values have the quantization of their input, and a concatenation and its
    inputs have one, unless an operator prescribes another.
    """
    group: dict[int, int] = {}  # activation → another one of its group; the root → itself
    measured = dict(ranges)

    def root(i: int) -> int:
        while group.setdefault(i, i) != i:
            i = group[i]
        return i

    prescribed = {
        i: prescribed_quantization(node.op, scheme.activations)
        for node in nodes
        if node.op in PRESCRIBED
        for i in node.outputs
    }
    for node in nodes:
        inputs = float_activations(graph, node)
        members: list[int] = []  # activations that have one quantization
        if node.op in SAME:
            members = [inputs[0], *node.outputs]
        elif node.op in ALL_SAME:
            roots = {root(i) for i in prescribed}
            members = [*node.outputs, *(i for i in inputs if root(i) not in roots)]
            for i in node.inputs:
                data = graph.tensors[i].data if i != ABSENT else None
                if data is not None and data.dtype.kind == "f":  # the range contains constants
                    (y,) = node.outputs
                    measured[y] = measured[y].union(range_of(data))
        for i in (*inputs, *node.outputs):
            root(i)
        for i in members[1:]:
            group[root(i)] = root(members[0])
    unions: dict[int, Range] = {}
    for i in group:
        if i in measured:
            first = root(i)
            unions[first] = measured[i].union(unions.get(first, measured[i]))
    quantizations = {
        first: range_quantization(union.lo, union.hi, scheme.activations)
        for first, union in unions.items()
    }
    quantizations |= {root(i): quantization for i, quantization in prescribed.items()}
    return {i: quantizations[root(i)] for i in group if root(i) in quantizations}


def range_of(values: Array) -> Range:
    """Returns the range of some values, extended to contain 0."""
    return Range(min(float(values.min()), 0.0), max(float(values.max()), 0.0))
