"""Transposes move behind operators to which the order of axes means nothing, until they meet.

Networks converted from PyTorch keep its order N C H W between operators that want N H W C: a
TRANSPOSE stands before and behind each convolution, and what lies between two of them (a
normalisation's factors, an activation, a sum of branches) computes the same in the other order.
Moved behind that, a transpose meets the next one, which undoes it.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from odt.core.lowering.binding import bind_operands, row_of
from odt.core.lowering.graph_builder import GraphBuilder
from odt.core.model.graph import LoweredGraph, Node
from odt.kernels.geometry.reduce_geometry import ReduceAttrs, kept_shape, reduced_axes
from odt.kernels.opdef import OpDef

Perm = tuple[int, ...]


def push_transposes(graph: LoweredGraph, kept: Sequence[int] = ()) -> LoweredGraph:
    """The graph with fewer values transposed; itself where there is nothing to gain.

    Args:
        graph: lowered.
        kept: tensors that must still be made beside the outputs.
    """
    if not any(node.op == "TRANSPOSE" for node in graph.nodes):
        return graph
    mover = _TransposePusher(graph)
    for node in graph.nodes:
        mover.add(node)
    for i in (*graph.outputs, *kept):
        mover.make(i, graph.nodes[-1].origin)
    found = mover.graph()
    return found if _moved(found) < _moved(graph) else graph


def _moved(graph: LoweredGraph) -> int:
    """Values that transposes move."""
    found = 0
    for node in graph.nodes:
        if node.op == "TRANSPOSE":
            spec = graph.tensors[node.inputs[0]].spec
            found += 0 if is_view(spec.shape, node.attrs.axes(spec)) else spec.size
    return found


def is_view(shape: tuple[int, ...], perm: Perm) -> bool:
    """Whether only axes of length 1 change places, whatever the number of samples."""
    long = [p for p in perm if p == 0 or shape[p] != 1]
    return long == sorted(long)


def back(perm: Perm) -> Perm:
    """The permutation that undoes another."""
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


def ordered(shape: tuple[int, ...], perm: Perm) -> tuple[int, ...]:
    return tuple(shape[p] for p in perm)


class _TransposePusher(GraphBuilder):
    """The new graph so far.

    Attributes:
        behind: tensors that are transposes of others: axis k is axis perm[k] of that one.
        made: those of them that there are.
    """

    def __init__(self, graph: LoweredGraph) -> None:
        super().__init__(graph)
        self.behind: dict[int, tuple[int, Perm]] = {}
        self.made: set[int] = set()

    def add(self, node: Node) -> None:
        """Adds what a node becomes."""
        row, x = row_of(node.op), node.inputs[0]
        if node.op == "TRANSPOSE":
            perm = node.attrs.axes(self.tensors[x].spec)
            base, before = self.behind.get(x, (x, tuple(range(len(perm)))))
            self.behind[node.outputs[0]] = base, ordered(before, perm)
            return
        inputs = tuple(self._same(i) for i in node.inputs)
        node = replace(node, inputs=inputs)
        perms = {self.behind[i][1] for i in inputs if i in self.behind}
        if len(perms) == 1 and row.permuted:
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
        """Makes a tensor that is a transpose, if it has not been made."""
        if i in self.behind and i not in self.made:
            self.made.add(i)
            base, perm = self.behind[i]
            self._transpose(base, perm, i, origin)

    def _same(self, i: int) -> int:
        """The tensor itself, or the one that it is after all."""
        base, perm = self.behind.get(i, (i, ()))
        return base if perm == tuple(range(len(perm))) else i

    def _passes(self, row: OpDef, node: Node, perm: Perm) -> bool:
        """Whether the operator may come before the transpose.

        Samples stay axis 0, there is one output of as many axes, and what else is read lies the
        same in either order.
        """
        (y, *more), rank = node.outputs, len(perm)
        if more or perm[0] != 0 or len(self.tensors[y].spec.shape) != rank:
            return False
        others = (i for i in bind_operands(row, node).values() if i not in self.behind)
        shapes = [self.tensors[i].spec.shape for i in others]
        return all(len(s) <= rank and is_view(_wide(s, rank), back(perm)) for s in shapes)

    def _add_before(self, row: OpDef, node: Node, perm: Perm) -> None:
        """Adds the node in the order of axes that its inputs have before the transpose."""
        assert row.permuted is not None
        (y,), operands = node.outputs, set(bind_operands(row, node).values())
        inputs = [self._before(i, perm, node) if i in operands else i for i in node.inputs]
        spec = self.tensors[y].spec
        made = self._turned(y, ordered(spec.shape, back(perm)))
        attrs = row.permuted(node.attrs, perm)
        self.nodes.append(replace(node, inputs=tuple(inputs), outputs=(made,), attrs=attrs))
        self.behind[y] = made, perm

    def _add_reduction(self, node: Node) -> None:
        """In two steps: axes become 1, and go."""
        x, (y,) = self.tensors[node.inputs[0]].spec, node.outputs
        kept = self._turned(y, kept_shape(x.shape, reduced_axes(node.attrs, x)))
        self.add(replace(node, outputs=(kept,), attrs=replace(node.attrs, keep_dims=True)))
        self.make(kept, node.origin)
        self.view(kept, y, node.origin)

    def _before(self, i: int, perm: Perm, node: Node) -> int:
        """An operand with its axes where they are before the transpose."""
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
        attrs = row_of("TRANSPOSE").attrs({}, {"perm": value})
        self.nodes.append(Node("TRANSPOSE", inputs, (y,), {}, origin, attrs))

    def _turned(self, i: int, shape: tuple[int, ...]) -> int:
        """A tensor like another with its axes elsewhere."""
        return self.tensor(f"{self.tensors[i].name}/moved", shape, self.tensors[i].spec)


def _wide(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """With axes of length 1 before the others."""
    return (1,) * (rank - len(shape)) + shape
