"""Slices of one tensor that do not overlap become one SPLIT_V.

The gradient of a slice is as large as what it was taken from. Unrolled over T steps, a recurrent
cell takes T slices of its input: their gradients, each almost empty, and the sums of them would
take T² steps' time. A SPLIT_V has one gradient, which is its parts' side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from odt.core.graph import Graph, Node, Tensor
from odt.core.names import row_of
from odt.kernels.opdef import Array, TensorSpec

SLICES = ("SLICE", "STRIDED_SLICE")


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """What a slice takes: entries [begin, end) of an axis, and all of the others."""

    axis: int
    begin: int
    end: int
    node: int


def split_slices(graph: Graph) -> Graph:
    """The graph with a SPLIT_V where two or more slices would share a tensor.

    Args:
        graph: lowered.
    """
    readers: dict[tuple[int, int], list[Part]] = {}
    for k, node in enumerate(graph.nodes):
        part = _part(graph, k) if node.op in SLICES else None
        if part and part.axis > 0:  # axis 0 is the samples'
            readers.setdefault((node.inputs[0], part.axis), []).append(part)
    tensors, first, gone = list(graph.tensors), dict[int, list[Node]](), set[int]()
    for (x, _), parts in readers.items():
        if _are_apart(parts, graph.tensors[x].spec):
            numbers = {part.node for part in parts}
            first[min(numbers)] = _split(graph, tensors, x, sorted(parts))
            gone |= numbers
    nodes: list[Node] = []
    for k, node in enumerate(graph.nodes):
        nodes += first.get(k, []) if k in gone else [node]
    return replace(graph, tensors=tuple(tensors), nodes=tuple(nodes))


def _part(graph: Graph, k: int) -> Part | None:
    """Of a node that cuts one axis, and takes its entries one by one."""
    node = graph.nodes[k]
    x = graph.tensors[node.inputs[0]]
    if x.data is not None:
        return None
    entries = row_of(node.op).forward.prepare(node.attrs, {"x": x.spec})["at"]
    cuts, axis = [], 0
    for entry in entries:
        if entry is None:
            continue
        size = x.spec.shape[axis]
        taken = range(size)[entry] if isinstance(entry, slice) else range(size)[entry:][:1]
        if taken.step != 1:
            return None
        if taken != range(size):
            cuts.append(Part(axis, taken.start, taken.stop, k))
        axis += 1
    return cuts[0] if len(cuts) == 1 else None


def _are_apart(parts: Sequence[Part], x: TensorSpec) -> bool:
    """Whether there are several, none overlaps another, and they leave out less than they take."""
    found = sorted(parts)
    together = sum(p.end - p.begin for p in found)
    return (
        len(found) > 1
        and all(a.end <= b.begin for a, b in pairwise(found))
        and 2 * together > x.shape[found[0].axis]
    )


def _split(graph: Graph, tensors: list[Tensor], x: int, parts: Sequence[Part]) -> list[Node]:
    """A SPLIT_V of tensor x, and a view of each part in the shape that its slice had."""
    spec, axis = graph.tensors[x].spec, parts[0].axis
    ends = sorted({0, spec.shape[axis], *(p.begin for p in parts), *(p.end for p in parts)})
    sizes = np.diff(np.array(ends, np.int32))
    statics: dict[str, Array] = {"sizes": sizes, "axis": np.array(axis, np.int32)}
    names = [f"{graph.tensors[x].name}/part"] * sizes.size

    def add(name: str, shape: Sequence[int], data: Array | None = None) -> int:
        dtype = spec.dtype if data is None else data.dtype
        tensors.append(Tensor(name, TensorSpec(tuple(shape), dtype), (), data))
        return len(tensors) - 1

    inputs = [x, *(add("", a.shape, a) for a in statics.values())]
    shapes = [(*spec.shape[:axis], int(n), *spec.shape[axis + 1 :]) for n in sizes]
    at = dict(zip(ends, (add(*pair) for pair in zip(names, shapes, strict=True)), strict=False))
    origin = graph.nodes[min(p.node for p in parts)].origin
    attrs = row_of("SPLIT_V").attrs({}, statics)
    made = [Node("SPLIT_V", tuple(inputs), tuple(at.values()), {}, origin, attrs)]
    for part in parts:
        node = graph.nodes[part.node]
        attrs = row_of("RESHAPE").attrs({"new_shape": tensors[node.outputs[0]].spec.shape}, {})
        made.append(Node("RESHAPE", (at[part.begin],), node.outputs, {}, node.origin, attrs))
    return made
