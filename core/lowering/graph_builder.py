"""Builds a new graph from a lowered one: the base class of graph rewrites."""

from collections.abc import Sequence
from dataclasses import replace

from odt.core.lowering.binding import row_of
from odt.core.model.graph import LoweredGraph, Node, Tensor
from odt.kernels.opdef import Array, TensorSpec


class GraphBuilder:
    """Collects the tensors and nodes of a new graph.

    Attributes:
        tensors: tensors of the old graph with their indices, then new tensors.
        nodes: nodes of the new graph, in the order they run.
    """

    def __init__(self, graph: LoweredGraph) -> None:
        self._graph = graph
        self.tensors, self.nodes = list(graph.tensors), list[Node]()

    def tensor(self, name: str, shape: Sequence[int], like: TensorSpec) -> int:
        """Adds a tensor with the dtype of `like`; returns its index."""
        self.tensors.append(Tensor(name, TensorSpec(tuple(shape), like.dtype)))
        return len(self.tensors) - 1

    def constant(self, values: Array, *, formula: bool = False) -> int:
        """Adds a constant without a name; returns its index."""
        spec = TensorSpec(values.shape, values.dtype)
        self.tensors.append(Tensor("", spec, (), values, formula=formula))
        return len(self.tensors) - 1

    def view(self, x: int, y: int, origin: int) -> None:
        """Adds a RESHAPE from x to y."""
        attrs = row_of("RESHAPE").attrs({"new_shape": self.tensors[y].spec.shape}, {})
        self.nodes.append(Node("RESHAPE", (x,), (y,), {}, origin, attrs))

    def graph(self) -> LoweredGraph:
        return replace(self._graph, tensors=tuple(self.tensors), nodes=tuple(self.nodes))
