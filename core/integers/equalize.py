"""Cross-layer equalization: the same function with weights that one scale suits.

If one unit of a layer has weights 30 times as large as the others', the others are rounded to a few
of the integers that share its scale. After RELU, or without an activation, a unit may be divided by
a number if the weights that read it are multiplied by the number: the result is the same. These
numbers are chosen so that the largest weight of each unit is that of its readers:
s = √(max |w of the unit| / max |w of its readers|), for each pair of layers in turn.

Source: Nagel et al., *Data-Free Quantization Through Weight Equalization and Bias Correction*
(2019), section 4.1.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from odt.core.lowering.final_activation import producer
from odt.core.model.graph import ABSENT, Graph, Node
from odt.core.model.model import Model
from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array

DENSE = ("CONV_2D", "FULLY_CONNECTED")  # the units are axis 0 of the weights, the inputs the last
LINEAR = (0, 1)  # no activation, RELU
ROUNDS = 10
# Factor of estimated ranges: a range that is too wide loses less in the first step, after which
# ranges are measured.
WIDER = 2.0


@dataclass(frozen=True, slots=True)
class Pair:
    """Two layers, the second of which alone reads the first.

    Attributes:
        w, b, y: weights, bias (or ABSENT) and output of the first layer.
        reader: weights of the second layer.
    """

    w: int
    b: int
    y: int
    reader: int


def pairs(model: Model, graph: Graph, free: Collection[int]) -> Iterator[Pair]:
    """Yields the layers that can be equalized.

    Both have int8 weights with one scale each, which nothing else reads.

    Args:
        model: the quantized file.
        graph: its graph, with weights as integers or as real numbers.
        free: weights and biases that train, and activations whose ranges move on their own.
    """
    reads = Counter(i for node in graph.nodes for i in node.inputs)
    reads.update(graph.outputs)

    def is_free(i: int) -> bool:
        return i in free and reads[i] == 1

    def has_one_scale(i: int) -> bool:
        q = model.quantization.get(i)
        dtype = model.graph.tensors[i].spec.dtype
        return q is not None and dtype == np.int8 and q.scale.size == 1 and not q.zero_point.any()

    for reader in graph.nodes:
        node = producer(graph, reader.inputs[0]) if reader.op in DENSE else None
        if node is None or node.op not in DENSE or not _is_linear(node):
            continue
        w, v, y = node.inputs[1], reader.inputs[1], node.outputs[0]
        b = node.inputs[2] if len(node.inputs) > 2 else ABSENT
        units, inputs = graph.tensors[w].spec.shape[0], graph.tensors[v].spec.shape[-1]
        if units != inputs or graph.tensors[y].spec.shape[-1] != units:
            continue
        alone = all(map(is_free, (w, v, y))) and (b == ABSENT or is_free(b))
        if alone and has_one_scale(w) and has_one_scale(v):
            yield Pair(w, b, y, v)


def _is_linear(node: Node) -> bool:
    return node.options.get("fused_activation_function", 0) in LINEAR


def equalize(layer_pairs: Sequence[Pair], values: Mapping[int, Array]) -> dict[int, float]:
    """Equalizes pairs of layers.

    Args:
        layer_pairs: the pairs, in the order of the graph.
        values: weights and biases by tensor, as float64, which are changed.

    Returns:
        Output of a first layer → factor by which its range grows, estimated from the weights.
    """
    norms: dict[int, Array] = {}  # of each unit
    divisors: dict[int, Array] = {}
    for p in layer_pairs:
        rows = values[p.w].reshape(len(values[p.w]), -1)
        norms[p.w] = np.asarray(np.linalg.norm(rows, axis=1))
        divisors[p.w] = np.ones(len(rows))
    for _ in range(ROUNDS):
        for p in layer_pairs:
            w, v = values[p.w], values[p.reader]
            largest = abs(w).max(axis=tuple(range(1, w.ndim)))
            largest_read = abs(v).max(axis=tuple(range(v.ndim - 1)))
            positive = largest * largest_read > 0
            ratio = np.divide(largest, largest_read, out=np.ones_like(largest), where=positive)
            s = np.sqrt(ratio)
            w /= s.reshape(-1, *[1] * (w.ndim - 1))
            v *= s
            if p.b != ABSENT:
                values[p.b][...] /= s.reshape(values[p.b].shape)
            divisors[p.w] *= s
    growth = {}
    for p in layer_pairs:
        before, after = norms[p.w].max(), (norms[p.w] / divisors[p.w]).max()
        growth[p.y] = WIDER * float(after / before) if before else 1.0
    return growth
