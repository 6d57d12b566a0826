"""Assigns scales and zero points to the activations of a graph."""

from collections.abc import Collection, Mapping

import numpy as np

from odt.core.model.graph import ABSENT, Graph, Node
from odt.core.quantization.rules import ALL_SAME, FIXED, SAME, WEIGHTS, Scheme
from odt.core.training.ranges import Range
from odt.kernels.geometry.quantize import Quantization, limits
from odt.kernels.opdef import Array

SMALLEST = 1e-7  # step of a tensor that is always 0


def quantized_nodes(graph: Graph, scheme: Scheme, kept: Collection[int]) -> list[Node]:
    """The nodes that can compute integers: of the scheme, on float32, with float32 results.

    Args:
        graph: graph with float32 weights.
        scheme: types and operators.
        kept: positions of the operators that keep real numbers.
    """

    def is_float(i: int) -> bool:
        return graph.tensors[i].spec.dtype == np.float32

    return [
        node
        for node in graph.nodes
        if node.op in scheme.operators
        and node.origin not in kept
        and all(map(is_float, node.outputs))
        and float_activations(graph, node)
        and (node.op not in WEIGHTS or _has_constant_weights(graph, node))
    ]


def _has_constant_weights(graph: Graph, node: Node) -> bool:
    w, b, _ = WEIGHTS[node.op]
    return all(
        not _is_activation(graph, i)
        for i in (node.inputs[w], *node.inputs[b : b + 1])
        if i != ABSENT
    )


def _is_activation(graph: Graph, i: int) -> bool:
    return graph.tensors[i].data is None


def float_activations(graph: Graph, node: Node) -> list[int]:
    """The float inputs of a node that are not constants."""
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
    group: dict[int, int] = {}
    whole = dict(ranges)

    def root(i: int) -> int:
        while group.setdefault(i, i) != i:
            i = group[i]
        return i

    prescribed = {
        i: prescribed_quantization(*FIXED[node.op], scheme)
        for node in nodes
        if node.op in FIXED
        for i in node.outputs
    }
    for node in nodes:
        inputs = float_activations(graph, node)
        together = []
        if node.op in SAME:
            together = [inputs[0], *node.outputs]
        elif node.op in ALL_SAME:
            roots = {root(i) for i in prescribed}
            together = [*node.outputs, *(i for i in inputs if root(i) not in roots)]
            for i in node.inputs:
                data = graph.tensors[i].data if i != ABSENT else None
                if data is not None and data.dtype.kind == "f":
                    (y,) = node.outputs
                    whole[y] = whole[y].union(range_of(data))
        for i in (*inputs, *node.outputs):
            root(i)
        for i in together[1:]:
            group[root(i)] = root(together[0])
    unions: dict[int, Range] = {}
    for i in group:
        if i in whole:
            r = root(i)
            unions[r] = unions[r].union(whole[i]) if r in unions else whole[i]
    found = {r: range_quantization(union, scheme) for r, union in unions.items()}
    found |= {root(i): quantization for i, quantization in prescribed.items()}
    return {i: found[root(i)] for i in group if root(i) in found}


def range_of(values: Array) -> Range:
    """The range of some values, with 0."""
    return Range(min(float(values.min()), 0.0), max(float(values.max()), 0.0))


def range_quantization(whole: Range, scheme: Scheme) -> Quantization:
    """Scale and zero point that represent a range; int16 is symmetric."""
    lo, hi = limits(np.dtype(scheme.activations))
    if scheme.activations == "int16":
        return _quantization(max(-whole.lo, whole.hi) / hi, 0)
    scale = (whole.hi - whole.lo) / (hi - lo) or SMALLEST
    return _quantization(scale, int(np.clip(np.rint(lo - whole.lo / scale), lo, hi)))


def prescribed_quantization(smallest: float, largest: float, scheme: Scheme) -> Quantization:
    """Scale and zero point that operators with a fixed range prescribe: a power of two."""
    lo, hi = limits(np.dtype(scheme.activations))
    if scheme.activations == "int16" or smallest:
        return _quantization(1 / (hi + 1), 0)
    return _quantization(1 / (hi - lo + 1), lo)


def _quantization(scale: float, zero_point: int) -> Quantization:
    scales = np.array([scale or SMALLEST], np.float32)
    return Quantization(scales, np.array([zero_point], np.int64), 0)
