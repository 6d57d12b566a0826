"""Merges the operators that spell out a normalization of rows into RMS_NORM.

With means over the last axis, files spell out layer normalization in nine operators,

    d = x − mean    inv = 1 / √(mean(d²) + ε)    y = γ (d inv) + β

or as y = x g + (β − mean g) with g = γ inv. RMS_NORM computes γ d inv in one pass over memory, and
the gradient of d in one more. With x instead of d this is RMS normalization.
"""

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np

from odt.core.lowering.graph_builder import GraphBuilder, node_of
from odt.core.lowering.patterns import Bindings, Pattern, match
from odt.core.model.graph import Graph, LoweredGraph, Node, Tensor
from odt.kernels.rows.opdef import TensorSpec

SQUARES: Pattern = [("SQUARE", "d"), ("MUL", "d", "d"), ("SQUARED_DIFFERENCE", "x", "mean")]
VARIANCE: Pattern = ("ADD", ("MEAN", SQUARES, "axes"), "epsilon")
INVERSE: Pattern = ("RSQRT", VARIANCE)
NORMALIZED: Pattern = [("MUL", "d", INVERSE), ("DIV", "d", ("SQRT", VARIANCE))]
SCALE: Pattern = ("MUL", "gamma", INVERSE)
PATTERNS: Pattern = [
    NORMALIZED,
    ("MUL", "gamma", NORMALIZED),
    ("MUL", "d", SCALE),
    ("ADD", ("MUL", "x", SCALE), ("SUB", "beta", ("MUL", "mean", SCALE))),
]


def merge_norms(graph: LoweredGraph, file: Graph) -> LoweredGraph:
    """Returns a graph with one RMS_NORM for each normalization of rows that is spelled out.

    The operators stay if one of their intermediate results is read elsewhere.
    """
    return _NormMerger(graph).graph()


class _NormMerger:
    """Searches a graph for the patterns, and builds the new graph."""

    def __init__(self, graph: LoweredGraph) -> None:
        self._graph = graph
        self._builder = GraphBuilder(graph)
        self._makers = {node.outputs[0]: node for node in graph.nodes}
        self._reads = graph.count_reads()
        self._epsilons = graph.epsilons()
        self._ones = dict[TensorSpec, int]()

    def graph(self) -> LoweredGraph:
        """Returns the new graph; the old one if it has no such normalization."""
        new = dict[int, Sequence[Node]]()  # the nodes that compute each tensor
        absent = set[int]()  # tensors that are no longer computed
        for node in self._graph.nodes:
            y = node.outputs[0]
            new[y] = (node,)
            for bindings, results in match(self._makers, PATTERNS, y):
                if self._is_norm(bindings, results, y):
                    new[y] = self._nodes(bindings, results, y)
                    absent |= results - {y}
                    break
        self._builder.nodes = [n for y, nodes in new.items() if y not in absent for n in nodes]
        return self._builder.graph() if absent else self._graph

    def _is_norm(self, bindings: Bindings, results: Collection[int], y: int) -> bool:
        """Whether y is a normalization of rows, and nothing else reads its intermediate results."""
        tensors, spec = self._graph.tensors, self._graph.tensors[y].spec
        epsilon = bindings["epsilon"]
        has_value = tensors[epsilon].scalar is not None or epsilon in self._epsilons
        if len(spec.shape) < 2 or spec.dtype.kind != "f" or not has_value:
            return False
        for mean in (self._makers[i] for i in results if self._makers[i].op == "MEAN"):
            last = mean.attrs.axes in ((-1,), (len(spec.shape) - 1,))
            if not last or not mean.attrs.keep_dims or tensors[mean.inputs[0]].spec != spec:
                return False
        if "gamma" in bindings and not _is_row(tensors[bindings["gamma"]], spec.shape[-1]):
            return False
        if "d" in bindings and "x" in bindings:
            d = self._makers.get(bindings["d"])
            if d is None or (d.op, d.inputs) != ("SUB", (bindings["x"], bindings["mean"])):
                return False
        uses = Counter(i for k in results for i in self._makers[k].inputs)
        return all(uses[i] == self._reads[i] for i in results if i != y)

    def _nodes(self, bindings: Bindings, results: Collection[int], y: int) -> Sequence[Node]:
        """Returns the nodes that compute y, with the origins of the nodes that read the weights."""
        tensors, spec = self._graph.tensors, self._graph.tensors[y].spec
        origins = {i: self._makers[k].origin for k in results for i in self._makers[k].inputs}
        nodes: list[Node] = []
        d = bindings.get("d")
        if d is None:
            d = self._builder.tensor(f"{tensors[y].name}/difference", spec.shape, spec)
            nodes.append(
                node_of("SUB", (bindings["x"], bindings["mean"]), (d,), origins[bindings["x"]])
            )
        gamma = bindings["gamma"] if "gamma" in bindings else self._all_ones(spec)
        z = y
        if "beta" in bindings:
            z = self._builder.tensor(f"{tensors[y].name}/normalized", spec.shape, spec)
        epsilon = tensors[bindings["epsilon"]].real
        assert epsilon is not None
        origin = origins.get(gamma, self._makers[y].origin)
        nodes.append(node_of("RMS_NORM", (d, gamma), (z,), origin, epsilon=float(epsilon.item())))
        if z != y:
            nodes.append(node_of("ADD", (z, bindings["beta"]), (y,), origins[bindings["beta"]]))
        return nodes

    def _all_ones(self, spec: TensorSpec) -> int:
        """Returns γ for rows that are not scaled; it does not train."""
        row = TensorSpec(spec.shape[-1:], spec.dtype)
        if row not in self._ones:
            self._ones[row] = self._builder.constant(np.ones(row.shape, row.dtype), formula=True)
        return self._ones[row]


def _is_row(gamma: Tensor, length: int) -> bool:
    """Whether a tensor is a weight with a value for each place of a row."""
    weight = gamma.data is not None and not (gamma.variable or gamma.decoder)
    return weight and gamma.spec.shape[-1:] == (length,) and gamma.spec.size == length
