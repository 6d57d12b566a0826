"""Merges the CONV_2D operators of groups of channels into one CONV_2D with groups.

tico, which converts models from PyTorch, writes a grouped convolution as a slice and a CONV_2D for
each group, and a CONCATENATION of their results. The results may be in PyTorch's order of axes,
N C H W, and other tensors may be joined to them.
"""

from collections.abc import Sequence
from dataclasses import replace

from odt.core.lowering.graph_builder import GraphBuilder, node_of, permuted
from odt.core.lowering.sources import Part, moved_axes, part_of
from odt.core.model.graph import ABSENT, Graph, LoweredGraph, Node
from odt.dataclass import dataclass

CHANNELS = 3  # axis of images
SAME_ORDER, FIRST, LAST = (0, 1, 2, 3), (0, 3, 1, 2), (0, 2, 3, 1)  # permutations
# Axis of the channels → permutation of images with channels last, and the one back.
ORDERS = {CHANNELS: (SAME_ORDER, SAME_ORDER), 1: (FIRST, LAST)}


@dataclass(frozen=True, slots=True)
class Group:
    """A convolution of some channels.

    Attributes:
        node: the CONV_2D.
        pad: the PAD before it, if there is one.
        part: the channels that it reads.
    """

    node: Node
    pad: Node | None
    part: Part


def merge_groups(graph: LoweredGraph, file: Graph) -> LoweredGraph:
    """Returns a graph with one CONV_2D for all groups of channels of a tensor."""
    if sum(node.op == "CONV_2D" for node in graph.nodes) < 2:
        return graph
    merger = _GroupMerger(graph)
    return merger.with_replaced(merger.add_merged)


class _GroupMerger(GraphBuilder):
    """Searches a graph for joined convolutions of groups, and builds the new graph."""

    def __init__(self, graph: LoweredGraph) -> None:
        super().__init__(graph)
        self._makers = {i: node for node in graph.nodes for i in node.outputs}
        self._reads = graph.count_reads()

    def add_merged(self, node: Node) -> bool:
        """Adds a CONCATENATION of fewer tensors, if some of a node's are the results of groups."""
        if node.op != "CONCATENATION":
            return False
        (y,) = node.outputs
        axis = node.attrs.axis % len(self.tensors[y].spec.shape)
        if len(self.tensors[y].spec.shape) != 4 or axis not in ORDERS:
            return False
        runs, rest = list[tuple[int, list[Group]]](), list(node.inputs)
        while rest:
            groups = self._groups(rest, axis)
            runs.append((rest[0], groups))
            rest = rest[len(groups) or 1 :]
        if len(runs) == len(node.inputs):
            return False
        if len(runs) == 1:
            self._add(runs[0][1], axis, y)
            return True
        inputs = [self._add(groups, axis) if groups else i for i, groups in runs]
        self.nodes.append(replace(node, inputs=tuple(inputs)))
        return True

    def _groups(self, tensors: Sequence[int], axis: int) -> list[Group]:
        """Returns the first tensors as results of all groups of a tensor's channels, or none."""
        groups: list[Group] = []
        for i in tensors:
            group = self._group(i, axis)
            if group is None or (groups and not self._continues(groups[0], groups[-1], group)):
                return []
            groups.append(group)
            part = group.part
            if part.end == self.tensors[part.x].spec.shape[part.axis]:
                return groups if len(groups) > 1 and groups[0].part.begin == 0 else []
        return []

    def _group(self, i: int, axis: int) -> Group | None:
        """Returns a tensor as the result of a convolution of some channels of a tensor."""
        tensors, makers = self.tensors, self._makers
        y, order = moved_axes(tensors, makers, i)
        node = makers.get(y)
        if node is None or node.op != "CONV_2D" or self._reads[i] > 1 or self._reads[y] > 1:
            return None
        if not self._is_moved(i, y, order, ORDERS[axis][0]):
            return None
        x, pad = node.inputs[0], makers.get(node.inputs[0])
        if tensors[x].spec.shape[CHANNELS] != tensors[node.inputs[1]].spec.shape[CHANNELS]:
            return None
        if pad is not None and pad.op == "PAD" and not any(pad.attrs.pads[CHANNELS]):
            x = pad.inputs[0]
        else:
            pad = None
        source, order = moved_axes(tensors, makers, x)
        maker = makers.get(source)
        part = part_of(tensors, maker, source) if maker is not None else None
        if part is None or part.axis not in ORDERS or len(tensors[part.x].spec.shape) != 4:
            return None
        is_moved = self._is_moved(x, source, order, ORDERS[part.axis][1])
        return Group(node, pad, part) if is_moved else None

    def _is_moved(self, i: int, source: int, order: Sequence[int], perm: Sequence[int]) -> bool:
        """Whether tensor i is the source with permuted axes.

        Args:
            i, source: two tensors.
            order: the axes of the source that are longer than 1, in their order in tensor i.
            perm: the permutation of all axes.
        """
        after, before = self.tensors[i].spec.shape, self.tensors[source].spec.shape
        if len(before) != 4 or after != permuted(before, perm):
            return False
        return tuple(order) == tuple(k for k in perm if before[k] != 1)

    def _continues(self, first: Group, last: Group, group: Group) -> bool:
        """Whether a group computes the next channels as the first one does."""
        a, b = first.part, group.part
        if (a.x, a.axis, a.end - a.begin) != (b.x, b.axis, b.end - b.begin):
            return False
        if b.begin != last.part.end or first.node.attrs != group.node.attrs:
            return False
        pads = [each.pad and each.pad.attrs for each in (first, group)]
        specs = [
            [i if i == ABSENT else self.tensors[i].spec for i in each.node.inputs[1:]]
            for each in (first, group)
        ]
        return pads[0] == pads[1] and specs[0] == specs[1]

    def _add(self, groups: Sequence[Group], axis: int, y: int = ABSENT) -> int:
        """Adds the convolution of all groups; returns its result, y unless that is absent."""
        first, origin = groups[0], groups[-1].node.origin
        x, attrs = first.part.x, first.node.attrs
        if first.part.axis != CHANNELS:
            x = self.transpose(x, LAST, origin)
        if first.pad is not None:
            sizes = zip(self.tensors[x].spec.shape, first.pad.attrs.pads, strict=True)
            shape = [size + sum(pads) for size, pads in sizes]
            padded = self.tensor(f"{self.tensors[x].name}/padded", shape, self.tensors[x].spec)
            inputs = x, *first.pad.inputs[1:]
            self.nodes.append(replace(first.pad, inputs=inputs, outputs=(padded,)))
            x = padded
        each = zip(*(group.node.inputs[1:] for group in groups), strict=True)
        weights = [self._joined(parts, origin) for parts in each if parts[0] != ABSENT]
        spec = self.tensors[first.node.outputs[0]].spec
        shape = [*spec.shape[:CHANNELS], len(groups) * spec.shape[CHANNELS]]
        is_moved = axis != CHANNELS
        result = self.tensor("", shape, spec) if is_moved or y == ABSENT else y
        self.nodes.append(Node("CONV_2D", (x, *weights), (result,), {}, origin, attrs))
        return self.transpose(result, FIRST, origin, y) if is_moved else result

    def _joined(self, parts: Sequence[int], origin: int) -> int:
        """Adds a CONCATENATION of the filters or biases of groups."""
        spec = self.tensors[parts[0]].spec
        y = self.tensor("", (len(parts) * spec.shape[0], *spec.shape[1:]), spec)
        self.nodes.append(node_of("CONCATENATION", parts, (y,), origin, axis=0))
        return y
