"""Merges slices of one tensor that do not overlap into one SPLIT_V.

The gradient of a slice is as large as the tensor it was taken from. A recurrent cell that is
unrolled over T time steps takes T slices of its input: computing their gradients, which are almost
all zeros, and summing them would take time proportional to T². A SPLIT_V has one gradient: the
concatenation of its parts' gradients.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from odt.core.lowering.binding import row_of
from odt.core.lowering.graph_builder import GraphBuilder, node_of
from odt.core.model.graph import Graph, LoweredGraph
from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array, TensorSpec

SLICES = ("SLICE", "STRIDED_SLICE")


@dataclass(frozen=True, slots=True)
class Part:
    """Extent of a slice: entries [begin, end) of one axis and all entries of the other axes.

    Attributes:
        axis, begin, end: the axis, and its entries.
        node: position of the slice among the nodes of the graph.
    """

    axis: int
    begin: int
    end: int
    node: int


def merge_slices(graph: LoweredGraph, file: Graph) -> LoweredGraph:
    """Replaces two or more slices of one tensor by a SPLIT_V."""
    readers: dict[tuple[int, int], list[Part]] = {}
    for k, node in enumerate(graph.nodes):
        part = _part(graph, k) if node.op in SLICES else None
        if part and part.axis > 0:  # axis 0 is the samples
            readers.setdefault((node.inputs[0], part.axis), []).append(part)
    splits: dict[int, tuple[int, list[Part]]] = {}  # position of the first slice → tensor and parts
    slices = set[int]()  # positions of all slices that are replaced
    for (x, _), parts in readers.items():
        if _are_disjoint(parts, graph.tensors[x].spec):
            positions = [part.node for part in parts]
            splits[min(positions)] = x, _in_order(parts)
            slices.update(positions)
    if not splits:
        return graph
    builder = GraphBuilder(graph)
    for k, node in enumerate(graph.nodes):
        if k in splits:
            x, parts = splits[k]
            _split(builder, graph, x, parts)
        elif k not in slices:
            builder.nodes.append(node)
    return builder.graph()


def _part(graph: LoweredGraph, k: int) -> Part | None:
    """Returns the part that a node takes, if it slices one axis with step 1."""
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
        # Slices of a range are ranges; an index takes one entry, from the end if it is negative.
        extent = range(size)[entry] if isinstance(entry, slice) else range(size)[entry:][:1]
        if extent.step != 1 or not extent:
            return None
        if extent != range(size):
            cuts.append(Part(axis, extent.start, extent.stop, k))
        axis += 1
    return cuts[0] if len(cuts) == 1 else None


def _in_order(parts: Sequence[Part]) -> list[Part]:
    return sorted(parts, key=lambda part: (part.begin, part.end))


def _are_disjoint(parts: Sequence[Part], x: TensorSpec) -> bool:
    """Whether two or more parts do not overlap and together take more than half of the axis."""
    ordered = _in_order(parts)
    total = sum(part.end - part.begin for part in ordered)
    return (
        len(ordered) > 1
        and all(a.end <= b.begin for a, b in pairwise(ordered))
        and 2 * total > x.shape[ordered[0].axis]
    )


def _split(builder: GraphBuilder, graph: LoweredGraph, x: int, parts: Sequence[Part]) -> None:
    """Adds a SPLIT_V of tensor x, and a RESHAPE of each part to the shape of its slice."""
    spec, axis = graph.tensors[x].spec, parts[0].axis
    ends = sorted({0, spec.shape[axis], *(p.begin for p in parts), *(p.end for p in parts)})
    sizes = np.diff(np.array(ends, np.int32))
    statics: dict[str, Array] = {"sizes": sizes, "axis": np.array(axis, np.int32)}
    inputs = [x, *map(builder.constant, statics.values())]
    tensors: dict[int, int] = {}  # first entry of a part → the part
    for begin, n in zip(ends[:-1], sizes.tolist(), strict=True):
        shape = (*spec.shape[:axis], n, *spec.shape[axis + 1 :])
        tensors[begin] = builder.tensor(f"{graph.tensors[x].name}/part", shape, spec)
    origin = graph.nodes[min(p.node for p in parts)].origin
    builder.nodes.append(node_of("SPLIT_V", inputs, tuple(tensors.values()), origin, statics))
    for part in parts:
        node = graph.nodes[part.node]
        builder.view(tensors[part.begin], node.outputs[0], node.origin)
