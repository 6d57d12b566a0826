"""Merges slices of one tensor that do not overlap into one SPLIT_V.

The gradient of a slice is as large as the tensor it was taken from. A recurrent cell that is
unrolled over T time steps takes T slices of its input: computing their gradients, which are almost
all zeros, and summing them would take time proportional to T². A SPLIT_V has one gradient: the
concatenation of its parts' gradients.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from odt.core.lowering.graph_builder import GraphBuilder, node_of
from odt.core.lowering.sources import SLICES, Part, part_of
from odt.core.model.graph import Graph, LoweredGraph
from odt.kernels.rows.opdef import Array, TensorSpec


def merge_slices(graph: LoweredGraph, file: Graph) -> LoweredGraph:
    """Replaces two or more slices of one tensor by a SPLIT_V."""
    readers: dict[tuple[int, int], list[Part]] = {}
    origins: dict[int, int] = {}  # slice → its origin
    for node in graph.nodes:
        part = part_of(graph.tensors, node, node.outputs[0]) if node.op in SLICES else None
        if part and part.axis > 0:  # axis 0 is the samples
            readers.setdefault((part.x, part.axis), []).append(part)
            origins[part.y] = node.origin
    splits: dict[int, list[Part]] = {}  # the first of some slices → these slices
    slices = set[int]()  # all slices that are replaced
    for (x, _), parts in readers.items():
        if _are_disjoint(parts, graph.tensors[x].spec):
            splits[parts[0].y] = parts
            slices.update(part.y for part in parts)
    if not splits:
        return graph
    builder = GraphBuilder(graph)
    for node in graph.nodes:
        y = node.outputs[0]
        if y in splits:
            _split(builder, splits[y], origins)
        elif y not in slices:
            builder.nodes.append(node)
    return builder.graph()


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


def _split(builder: GraphBuilder, slices: Sequence[Part], origins: Mapping[int, int]) -> None:
    """Adds a SPLIT_V of a tensor, and a RESHAPE of each part to the shape of its slice."""
    parts, x, axis = _in_order(slices), slices[0].x, slices[0].axis
    spec = builder.tensors[x].spec
    ends = sorted({0, spec.shape[axis], *(p.begin for p in parts), *(p.end for p in parts)})
    sizes = np.diff(np.array(ends, np.int32))
    statics: dict[str, Array] = {"sizes": sizes, "axis": np.array(axis, np.int32)}
    inputs = [x, *map(builder.constant, statics.values())]
    tensors: dict[int, int] = {}  # first entry of a part → the part
    for begin, n in zip(ends[:-1], sizes.tolist(), strict=True):
        shape = (*spec.shape[:axis], n, *spec.shape[axis + 1 :])
        tensors[begin] = builder.tensor(f"{builder.tensors[x].name}/part", shape, spec)
    results = tuple(tensors.values())
    builder.nodes.append(node_of("SPLIT_V", inputs, results, origins[slices[0].y], statics))
    for part in parts:
        builder.view(tensors[part.begin], part.y, origins[part.y])
