"""Fused activations that a quantized file leaves to the ranges of its integers.

Until 2019 TensorFlow's converter dropped a RELU or RELU6 whose output is quantized from 0 on: the
integers have no numbers below. Without integers, or with a range that follows the values, the
activation must be there.
"""

from collections.abc import Mapping
from dataclasses import replace

from odt.core.model.graph import Graph
from odt.core.model.model import Model
from odt.kernels.geometry.quantize import limits
from odt.kernels.rows.quantized_index import QUANTIZED

# The converter fused activations into these.
OPERATORS = frozenset(op for op, row in QUANTIZED.items() if row.implies_activation)
FUSED = "fused_activation_function"  # the option of an operator
NONE, RELU, RELU6 = 0, 1, 3  # codes of activations


def implied_activations(model: Model) -> dict[int, int]:
    """Returns output of an operator → code of the activation that its range implies."""
    activations = {}
    for node in model.graph.nodes:
        if node.op not in OPERATORS or node.options.get(FUSED, NONE) != NONE:
            continue
        (y,) = node.outputs
        quantization, spec = model.quantization.get(y), model.graph.tensors[y].spec
        if quantization is None or spec.dtype.kind not in "iu":
            continue
        lo, hi = limits(spec.dtype)
        if quantization.zero_point[0] == lo:
            scale = float(quantization.scale[0])
            activations[y] = RELU6 if abs((hi - lo) * scale - 6) < scale / 2 else RELU
    return activations


def with_implied_activations(graph: Graph, implied: Mapping[int, int]) -> Graph:
    """Returns a graph whose operators name the activations of their outputs."""
    nodes = list(graph.nodes)
    for k, node in enumerate(nodes):
        for code in (implied[y] for y in node.outputs if y in implied):
            nodes[k] = replace(node, options={**node.options, FUSED: code})
    return replace(graph, nodes=tuple(nodes))
