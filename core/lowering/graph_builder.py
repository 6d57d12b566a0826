"""A graph in the making: what rewrites of a lowered graph add to it."""

from collections.abc import Sequence
from dataclasses import replace

from odt.core.lowering.binding import row_of
from odt.core.model.graph import LoweredGraph, Node, Tensor
from odt.kernels.opdef import Array, TensorSpec


class GraphBuilder:
    """Tensors of a graph and more, and nodes in the order they run.

    Attributes:
        tensors, nodes: so far; those of the graph keep their indices.
    """

    def __init__(self, graph: LoweredGraph) -> None:
        self._graph = graph
        self.tensors, self.nodes = list(graph.tensors), list[Node]()

    def tensor(self, name: str, shape: Sequence[int], like: TensorSpec) -> int:
        """Adds one of the same dtype; gives its index."""
        self.tensors.append(Tensor(name, TensorSpec(tuple(shape), like.dtype)))
        return len(self.tensors) - 1

    def constant(self, values: Array) -> int:
        """Adds one without a name; gives its index."""
        self.tensors.append(Tensor("", TensorSpec(values.shape, values.dtype), (), values))
        return len(self.tensors) - 1

    def view(self, x: int, y: int, origin: int) -> None:
        """Adds the RESHAPE that makes y of x."""
        attrs = row_of("RESHAPE").attrs({"new_shape": self.tensors[y].spec.shape}, {})
        self.nodes.append(Node("RESHAPE", (x,), (y,), {}, origin, attrs))

    def graph(self) -> LoweredGraph:
        return replace(self._graph, tensors=tuple(self.tensors), nodes=tuple(self.nodes))
