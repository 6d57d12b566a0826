"""Builds a new graph from a lowered one: the base class of graph rewrites."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from odt.core.lowering.binding import row_of
from odt.core.lowering.normalize.unread import without_unread
from odt.core.model.graph import ABSENT, LoweredGraph, Node, Tensor
from odt.kernels.rows.opdef import Array, TensorSpec

NO_STATICS: Mapping[str, Array] = MappingProxyType({})


def node_of(
    op: str,
    inputs: Sequence[int],
    outputs: Sequence[int],
    origin: int,
    statics: Mapping[str, Array] = NO_STATICS,
    **options: Any,
) -> Node:
    """Returns a node of a supported operator, with the attributes of its row.

    Args:
        op: name of the operator.
        inputs, outputs: tensors.
        origin: position of the operator in the file.
        statics: values of its static inputs, by name.
        options: its options in the schema.
    """
    attrs = row_of(op).attrs(options, statics)
    return Node(op, tuple(inputs), tuple(outputs), options, origin, attrs)


def permuted(shape: Sequence[int], perm: Sequence[int]) -> tuple[int, ...]:
    """Returns the shape of a transpose of a tensor."""
    return tuple(shape[p] for p in perm)


def inverse(perm: Sequence[int]) -> tuple[int, ...]:
    """Returns the permutation that undoes another one."""
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


class GraphBuilder:
    """Collects the tensors and nodes of a new graph.

    Attributes:
        tensors: tensors of the old graph with their indices, then new tensors.
        nodes: nodes of the new graph, in the order they run.
    """

    def __init__(self, graph: LoweredGraph) -> None:
        self._graph = graph
        self.tensors = list(graph.tensors)
        self.nodes: list[Node] = []

    def tensor(self, name: str, shape: Sequence[int], like: TensorSpec) -> int:
        """Adds a tensor with the dtype of `like`; returns its index."""
        self.tensors.append(Tensor(name, TensorSpec(tuple(shape), like.dtype)))
        return len(self.tensors) - 1

    def constant(self, values: Array, *, formula: bool = False) -> int:
        """Adds a constant without a name; returns its index."""
        spec = TensorSpec(values.shape, values.dtype)
        self.tensors.append(Tensor("", spec, (), values, formula=formula))
        return len(self.tensors) - 1

    def split(self, x: int, axis: int, number: int, origin: int) -> list[int]:
        """Adds a SPLIT of tensor x into equal parts; returns the parts."""
        tensor, at = self.tensors[x], np.array(axis, np.int32)
        shape = list(tensor.spec.shape)
        shape[axis] //= number
        parts = [self.tensor(f"{tensor.name}/group{k}", shape, tensor.spec) for k in range(number)]
        inputs = (self.constant(at), x)
        self.nodes.append(node_of("SPLIT", inputs, parts, origin, {"axis": at}, num_splits=number))
        return parts

    def transpose(self, x: int, perm: Sequence[int], origin: int, y: int = ABSENT) -> int:
        """Adds a TRANSPOSE of tensor x; returns y, or a new tensor if that is absent."""
        tensor, value = self.tensors[x], np.array(perm, np.int32)
        if y == ABSENT:
            name, shape = f"{tensor.name}/transposed", permuted(tensor.spec.shape, perm)
            y = self.tensor(name, shape, tensor.spec)
        inputs = x, self.constant(value)
        self.nodes.append(node_of("TRANSPOSE", inputs, (y,), origin, {"perm": value}))
        return y

    def view(self, x: int, y: int, origin: int) -> None:
        """Adds a RESHAPE from x to y."""
        shape = self.tensors[y].spec.shape
        self.nodes.append(node_of("RESHAPE", (x,), (y,), origin, new_shape=shape))

    def with_replaced(self, replaces: Callable[[Node], bool]) -> LoweredGraph:
        """Returns the new graph; the old one if no node is replaced.

        Args:
            replaces: adds other nodes for a node and returns True, or False if the node stays.
        """
        replaced = False
        for node in self._graph.nodes:
            if replaces(node):
                replaced = True
            else:
                self.nodes.append(node)
        if not replaced:
            return self._graph
        self.drop_unread()
        return self.graph()

    def drop_unread(self) -> None:
        """Drops the nodes whose outputs nothing reads."""
        self.nodes = without_unread(self.nodes, self._graph.outputs, lambda n: bool(n.outputs))

    def graph(self) -> LoweredGraph:
        """Returns the new graph."""
        return replace(self._graph, tensors=tuple(self.tensors), nodes=tuple(self.nodes))
