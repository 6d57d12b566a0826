"""Pushes transposes past operators that do not depend on the order of axes, until they cancel.

Networks converted from PyTorch keep its layout N C H W between operators that need N H W C: there
is a TRANSPOSE before and after each convolution. The operators between two transposes (the factors
of a normalization, an activation, a sum of branches) compute the same values in either layout. A
transpose that is pushed past them meets the next one, which is its inverse.
"""

from dataclasses import replace

import numpy as np

from odt.core.lowering.binding import bind_operands, row_of
from odt.core.lowering.final_activation import final_logits
from odt.core.lowering.graph_builder import GraphBuilder, node_of
from odt.core.model.graph import Graph, LoweredGraph, Node
from odt.kernels.geometry.reduce_geometry import ReduceAttrs, reduced_axes, shape_with_keepdims
from odt.kernels.rows.opdef import OpDef

Perm = tuple[int, ...]


def push_transposes(graph: LoweredGraph, file: Graph) -> LoweredGraph:
    """Returns a graph that transposes fewer values; `graph` itself if there is none.

    It computes the logits of the file's final activations, which losses read, besides the outputs.
    """
    if not any(node.op == "TRANSPOSE" for node in graph.nodes):
        return graph
    mover = _TransposePusher(graph)
    for node in graph.nodes:
        mover.add(node)
    for i in (*graph.outputs, *final_logits(file)):
        mover.make(i, graph.nodes[-1].origin)
    pushed = mover.graph()
    return pushed if _moved(pushed) < _moved(graph) else graph


def _moved(graph: LoweredGraph) -> int:
    """Counts the values that transposes move in memory."""
    count = 0
    for node in graph.nodes:
        if node.op == "TRANSPOSE":
            spec = graph.tensors[node.inputs[0]].spec
            count += 0 if is_view(spec.shape, node.attrs.axes(spec)) else spec.size
    return count


def is_view(shape: tuple[int, ...], perm: Perm) -> bool:
    """Whether a transpose keeps the order in memory, because it moves only axes of length 1.

    The batch axis counts as longer for any number of samples.
    """
    long = [p for p in perm if p == 0 or shape[p] != 1]
    return long == sorted(long)


def back(perm: Perm) -> Perm:
    """Returns the inverse of a permutation."""
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


def ordered(shape: tuple[int, ...], perm: Perm) -> tuple[int, ...]:
    return tuple(shape[p] for p in perm)


class _TransposePusher(GraphBuilder):
    """Builds the new graph, with transposes postponed until a node needs their result.

    Attributes:
        behind: transposed tensor → the tensor it is a transpose of, and the permutation: axis k
            is axis perm[k] of that tensor.
        turned_tensors: transposed tensors that the new graph computes.
    """

    def __init__(self, graph: LoweredGraph) -> None:
        super().__init__(graph)
        self.behind: dict[int, tuple[int, Perm]] = {}
        self.turned_tensors: set[int] = set()

    def add(self, node: Node) -> None:
        """Adds a node, in the layout before a transpose if the node permits that."""
        row, x = row_of(node.op), node.inputs[0]
        if node.op == "TRANSPOSE":
            perm = node.attrs.axes(self.tensors[x].spec)
            base, before = self.behind.get(x, (x, tuple(range(len(perm)))))
            self.behind[node.outputs[0]] = base, ordered(before, perm)
            return
        inputs = tuple(self._same(i) for i in node.inputs)
        node = replace(node, inputs=inputs)
        perms = {self.behind[i][1] for i in inputs if i in self.behind}
        if len(perms) == 1 and row.permute:
            (perm,) = perms
            if isinstance(node.attrs, ReduceAttrs) and not node.attrs.keep_dims:
                self._add_reduction(node)
                return
            if self._passes(row, node, perm):
                self._add_before(row, node, perm)
                return
        for i in dict.fromkeys(inputs):
            self.make(i, node.origin)
        self.nodes.append(node)

    def make(self, i: int, origin: int) -> None:
        """Adds the TRANSPOSE of a postponed tensor, unless it was added before."""
        if i in self.behind and i not in self.turned_tensors:
            self.turned_tensors.add(i)
            base, perm = self.behind[i]
            self._transpose(base, perm, i, origin)

    def _same(self, i: int) -> int:
        """Returns the tensor, or its base if the transposes in between cancel."""
        base, perm = self.behind.get(i, (i, ()))
        return base if perm == tuple(range(len(perm))) else i

    def _passes(self, row: OpDef, node: Node, perm: Perm) -> bool:
        """Whether a node can be computed before the transpose.

        The batch must stay axis 0, the only output must have the same rank, and the other operands
        must have the same order in memory in both layouts.
        """
        (y, *rest), rank = node.outputs, len(perm)
        if rest or perm[0] != 0 or len(self.tensors[y].spec.shape) != rank:
            return False
        others = (i for i in bind_operands(row, node).values() if i not in self.behind)
        shapes = [self.tensors[i].spec.shape for i in others]
        return all(len(s) <= rank and is_view(_wide(s, rank), back(perm)) for s in shapes)

    def _add_before(self, row: OpDef, node: Node, perm: Perm) -> None:
        """Adds a node in the layout that its inputs have before the transpose."""
        assert row.permute is not None
        (y,), operands = node.outputs, set(bind_operands(row, node).values())
        inputs = [self._before(i, perm, node) if i in operands else i for i in node.inputs]
        spec = self.tensors[y].spec
        result = self._turned(y, ordered(spec.shape, back(perm)))
        attrs = row.permute(node.attrs, perm)
        self.nodes.append(replace(node, inputs=tuple(inputs), outputs=(result,), attrs=attrs))
        self.behind[y] = result, perm

    def _add_reduction(self, node: Node) -> None:
        """Adds a reduction without keep_dims as one with keep_dims and a RESHAPE."""
        x, (y,) = self.tensors[node.inputs[0]].spec, node.outputs
        reduced = self._turned(y, shape_with_keepdims(x.shape, reduced_axes(node.attrs, x)))
        self.add(replace(node, outputs=(reduced,), attrs=replace(node.attrs, keep_dims=True)))
        self.make(reduced, node.origin)
        self.view(reduced, y, node.origin)

    def _before(self, i: int, perm: Perm, node: Node) -> int:
        """Returns an operand in the layout before the transpose."""
        if i in self.behind:
            return self.behind[i][0]
        shape = _wide(self.tensors[i].spec.shape, len(perm))
        y = self._turned(i, ordered(shape, back(perm)))
        self.view(i, y, node.origin)
        return y

    def _transpose(self, x: int, perm: Perm, y: int, origin: int) -> None:
        if is_view(self.tensors[x].spec.shape, perm):
            self.view(x, y, origin)
            return
        value = np.array(perm, np.int32)
        inputs = x, self.constant(value)
        self.nodes.append(node_of("TRANSPOSE", inputs, (y,), origin, {"perm": value}))

    def _turned(self, i: int, shape: tuple[int, ...]) -> int:
        """Adds a tensor like `i` with permuted axes."""
        return self.tensor(f"{self.tensors[i].name}/moved", shape, self.tensors[i].spec)


def _wide(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Returns the shape with leading axes of length 1, up to `rank` axes."""
    return (1,) * (rank - len(shape)) + shape
