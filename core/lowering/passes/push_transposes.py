"""Pushes transposes past operators that do not depend on the order of axes, until they cancel.

Networks converted from PyTorch keep its layout N C H W between operators that need N H W C: there
is a TRANSPOSE before and after each convolution. The operators between two transposes (the factors
of a normalization, an activation, a sum of branches) compute the same values in either layout, and
so do those with attributes for each axis (padding, slices, splits). A transpose that is pushed past
them meets the next one, which is its inverse.

A RESHAPE that splits or merges axes which are neighbors in both layouts lets a transpose pass too.
The shuffle of channels merges two axes that have changed places: only these are transposed, and the
rest of the transpose waits. Whether this moves fewer values depends on what follows, so the graph
with the fewest is taken.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from operator import itemgetter

from odt.core.lowering.binding import bind_operands, row_of
from odt.core.lowering.final_activation import final_logits
from odt.core.lowering.graph_builder import GraphBuilder, inverse, permuted
from odt.core.lowering.normalize.unread import without_unread
from odt.core.model.graph import Graph, LoweredGraph, Node
from odt.errors import ShapeError
from odt.kernels.geometry.reduce_geometry import ReduceAttrs, reduced_axes, shape_with_keepdims
from odt.kernels.rows.opdef import OpDef

Perm = tuple[int, ...]
VIEWS = frozenset(("RESHAPE", "EXPAND_DIMS", "SQUEEZE"))


class Views(Enum):
    """The RESHAPEs that a transpose passes.

    PARTLY: also those that only a part of the transpose can pass. WHOLE: those that all of it can
    pass. NONE: none.
    """

    PARTLY = "partly"
    WHOLE = "whole"
    NONE = "none"


def push_transposes(graph: LoweredGraph, file: Graph) -> LoweredGraph:
    """Returns a graph that transposes fewer values; `graph` itself if it cannot.

    The new graph computes the outputs, and the logits of the file's final activations, which losses
    read.
    """
    return min((graph, *(_push(graph, file, views) for views in Views)), key=_count_moved)


def _push(graph: LoweredGraph, file: Graph, views: Views) -> LoweredGraph:
    """Returns a graph whose transposes are pushed past operators, also past some RESHAPEs."""
    pusher = _TransposePusher(graph, views)
    for node in graph.nodes:
        pusher.add(node)
    ends = (*graph.outputs, *final_logits(file))
    for i in ends:
        pusher.make(i, graph.nodes[-1].origin)
    pusher.nodes = without_unread(
        pusher.nodes, ends, lambda n: n.op == "TRANSPOSE" or n.op in VIEWS
    )
    return pusher.graph()


def _count_moved(graph: LoweredGraph) -> int:
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


def axis_groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[range, range]]:
    """Divides the axes of two shapes of one size into the smallest groups of equal size.

    Returns:
        For each group, axes of the first shape and axes of the second one. Axes of length 1 belong
        to a group with others, if there are any.
    """
    groups: list[tuple[range, range]] = []
    i = k = 0
    while i < len(before) and k < len(after):
        start, sizes = (i, k), [before[i], after[k]]
        while sizes[0] != sizes[1]:
            if sizes[0] < sizes[1]:
                i += 1
                sizes[0] *= before[i]
            else:
                k += 1
                sizes[1] *= after[k]
        i, k = i + 1, k + 1
        groups.append((range(start[0], i), range(start[1], k)))
    old, new = groups.pop() if groups else (range(0), range(0))
    return [*groups, (range(old.start, len(before)), range(new.start, len(after)))]


class _TransposePusher(GraphBuilder):
    """Builds the new graph, with transposes postponed until a node needs their result.

    Attributes:
        views: the RESHAPEs that transposes pass.
        behind: transposed tensor → the tensor it is a transpose of, and the permutation: axis k
            is axis perm[k] of that tensor.
        computed: transposed tensors that the new graph computes.
        origins: result of RESHAPEs one after the other → the tensor before them.
        readers: tensor → the operators that read it.
    """

    def __init__(self, graph: LoweredGraph, views: Views) -> None:
        super().__init__(graph)
        self.views = views
        self.readers = defaultdict[int, set[str]](set)
        for node in graph.nodes:
            for i in node.inputs:
                self.readers[i].add(node.op)
        self.behind: dict[int, tuple[int, Perm]] = {}
        self.computed: set[int] = set()
        self.origins: dict[int, int] = {}

    def add(self, node: Node) -> None:
        """Adds a node, in the layout before a transpose if the node permits that."""
        row, x = row_of(node.op), node.inputs[0]
        if node.op == "TRANSPOSE":
            perm = node.attrs.axes(self.tensors[x].spec)
            base, before = self.behind.get(x, (x, tuple(range(len(perm)))))
            self.behind[node.outputs[0]] = base, permuted(before, perm)
            return
        inputs = tuple(self._same(i) for i in node.inputs)
        if inputs != node.inputs:
            node = replace(node, inputs=inputs)
        perms = {self.behind[i][1] for i in inputs if i in self.behind}
        if node.op in VIEWS and self.views != Views.NONE:
            source = self.origins.get(inputs[0], inputs[0])
            if self._add_view(source, node):
                return
            self.origins[node.outputs[0]] = source
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
        if i in self.behind and i not in self.computed:
            self.computed.add(i)
            base, perm = self.behind[i]
            self._transpose(base, perm, i, origin)

    def _same(self, i: int) -> int:
        """Returns the tensor, or its base if the transposes in between cancel."""
        base, perm = self.behind.get(i, (i, ()))
        return base if perm == tuple(range(len(perm))) else i

    def _passes(self, row: OpDef, node: Node, perm: Perm) -> bool:
        """Whether a node can be computed before the transpose.

        The batch must stay axis 0, the outputs must have the same rank, and the other operands
        must have the same order in memory in both layouts.
        """
        rank = len(perm)
        ranks = {len(self.tensors[y].spec.shape) for y in node.outputs}
        if perm[0] != 0 or ranks != {rank}:
            return False
        others = (i for i in bind_operands(row, node).values() if i not in self.behind)
        shapes = [self.tensors[i].spec.shape for i in others]
        if not all(len(s) <= rank and is_view(_wide(s, rank), inverse(perm)) for s in shapes):
            return False
        if self._grows(node) and not any(self._may_pass(y) for y in node.outputs):
            return False
        assert row.permute is not None
        try:
            row.permute(node.attrs, perm)
        except ShapeError:
            return False
        return True

    def _grows(self, node: Node) -> bool:
        """Whether a node adds values to those of its transposed inputs, as padding does."""
        before = sum(self.tensors[i].spec.size for i in node.inputs if i in self.behind)
        return sum(self.tensors[y].spec.size for y in node.outputs) > before

    def _may_pass(self, i: int) -> bool:
        """Whether a transpose may pass some reader of a tensor."""
        return any(op == "TRANSPOSE" or op in VIEWS or row_of(op).permute for op in self.readers[i])

    def _add_before(self, row: OpDef, node: Node, perm: Perm) -> None:
        """Adds a node in the layout that its inputs have before the transpose."""
        assert row.permute is not None
        attrs = row.permute(node.attrs, perm)
        operands = set(bind_operands(row, node).values())
        inputs = tuple(self._before(i, perm, node) if i in operands else i for i in node.inputs)
        results = []
        for y in node.outputs:
            shape = permuted(self.tensors[y].spec.shape, inverse(perm))
            results.append(self._permuted_like(y, shape))
            self.behind[y] = results[-1], perm
        self.nodes.append(replace(node, inputs=inputs, outputs=tuple(results), attrs=attrs))

    def _add_view(self, x: int, node: Node) -> bool:
        """Adds a RESHAPE of x before its transpose, if the batch stays axis 0 and it can pass."""
        if x not in self.behind:
            return False
        (y,), (base, perm) = node.outputs, self.behind[x]
        before, after = (self.tensors[i].spec.shape for i in (x, y))
        if perm[0] != 0 or not after or before[0] != after[0] or 0 in before:
            return False
        # Axes that the RESHAPE merges or splits, and the place of each group in the base's order.
        groups = axis_groups(before[1:], after[1:])
        places = [[perm[k + 1] for k in old if before[k + 1] != 1] for old, _ in groups]
        groups = [group for _, group in sorted(zip(places, groups, strict=True), key=itemgetter(0))]
        # Axes of a group must be neighbors in the order of the transpose: if they are not in the
        # base, only these are transposed before the RESHAPE.
        order = (0, *(perm[k + 1] for old, _ in groups for k in old))
        if not is_view(self.tensors[base].spec.shape, order):
            if self.views != Views.PARTLY:
                return False
            part = self._permuted_like(x, permuted(self.tensors[base].spec.shape, order))
            self._transpose(base, order, part, node.origin)
            base = part
        axes = (0, *(k + 1 for _, new in groups for k in new))  # of the result, in the base's order
        result = self._permuted_like(y, permuted(after, axes))
        self.view(base, result, node.origin)
        self.behind[y] = result, inverse(axes)
        return True

    def _add_reduction(self, node: Node) -> None:
        """Adds a reduction without keep_dims as one with keep_dims and a RESHAPE."""
        x, (y,) = self.tensors[node.inputs[0]].spec, node.outputs
        reduced = self._permuted_like(y, shape_with_keepdims(x.shape, reduced_axes(node.attrs, x)))
        self.add(replace(node, outputs=(reduced,), attrs=replace(node.attrs, keep_dims=True)))
        self.make(reduced, node.origin)
        self.view(reduced, y, node.origin)

    def _before(self, i: int, perm: Perm, node: Node) -> int:
        """Returns an operand in the layout before the transpose."""
        if i in self.behind:
            return self.behind[i][0]
        shape = _wide(self.tensors[i].spec.shape, len(perm))
        y = self._permuted_like(i, permuted(shape, inverse(perm)))
        self.view(i, y, node.origin)
        return y

    def _transpose(self, x: int, perm: Perm, y: int, origin: int) -> None:
        """Adds the transpose y of x: a RESHAPE where that keeps the order in memory."""
        if is_view(self.tensors[x].spec.shape, perm):
            self.view(x, y, origin)
            return
        self.transpose(x, perm, origin, y)

    def _permuted_like(self, i: int, shape: tuple[int, ...]) -> int:
        """Adds a tensor like `i` with permuted axes."""
        return self.tensor(f"{self.tensors[i].name}/moved", shape, self.tensors[i].spec)


def _wide(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Returns the shape with leading axes of length 1, up to `rank` axes."""
    return (1,) * (rank - len(shape)) + shape
