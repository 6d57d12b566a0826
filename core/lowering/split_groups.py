"""Splits a CONV_2D with groups of channels into operators that compute one or a few groups each.

Filters (O, KH, KW, C) on G·C channels read C of them: the first O / G filters the first C channels,
and so on. A file has no option for groups; the shapes tell. Each group becomes a CONV_2D of its own
on a part of the channels, and filters of one channel a DEPTHWISE_CONV_2D. Narrow groups, which
would leave parts of vectors empty, are computed together, with weights of 0 between them. The
weights stay one tensor. Source: grouped convolution in TFLite's CONV_2D.
"""

from dataclasses import replace

import numpy as np

from odt.core.lowering.binding import row_of
from odt.core.lowering.graph_builder import GraphBuilder
from odt.core.model.graph import ABSENT, Graph, LoweredGraph, Node
from odt.kernels.geometry.conv_geometry import number_of_groups

FILTERS, CHANNELS = 0, 3  # axes
# Channels of a convolution that fill vectors. With 32 groups of 4 channels it took 0.70 of the time
# with AVX-512 and 0.81 with AVX2; groups of 8 channels gave 0.82 and 0.74, of 32 0.77 and 0.92.
WIDTH = 16


def split_groups(graph: LoweredGraph) -> LoweredGraph:
    """Returns a graph without groups of channels; `graph` itself if there are none."""
    groups = [groups_of(graph, node) for node in graph.nodes]
    if max(groups, default=1) == 1:
        return graph
    builder = GraphBuilder(graph)
    for node, number in zip(graph.nodes, groups, strict=True):
        if number == 1:
            builder.nodes.append(node)
        elif graph.tensors[node.inputs[1]].spec.shape[CHANNELS] == 1:
            _add_depthwise(builder, node)
        else:
            together = _groups_together(graph, node, number)
            wide = _with_wide_filters(builder, node, together)
            if together < number:
                _add_groups(builder, wide, number // together)
            else:
                builder.nodes.append(wide)
    return builder.graph()


def groups_of(graph: Graph, node: Node) -> int:
    """Returns into how many groups a CONV_2D divides the channels; 1 for other operators."""
    if node.op != "CONV_2D":
        return 1
    x, w = (graph.tensors[i].spec for i in node.inputs[:2])
    return number_of_groups(x, w)


def _add_depthwise(builder: GraphBuilder, node: Node) -> None:
    """Adds a DEPTHWISE_CONV_2D whose filters are a TRANSPOSE of the node's."""
    x, w, *bias = node.inputs
    perm, old = np.array((CHANNELS, 1, 2, FILTERS), np.int32), builder.tensors[w]
    shape = [old.spec.shape[p] for p in perm]
    filters = builder.tensor(f"{old.name}/transposed", shape, old.spec)
    attrs = row_of("TRANSPOSE").attrs({}, {"perm": perm})
    read = w, builder.constant(perm)
    builder.nodes += [
        Node("TRANSPOSE", read, (filters,), {}, node.origin, attrs),
        replace(node, op="DEPTHWISE_CONV_2D", inputs=(x, filters, *bias), options={}),
    ]


def _groups_together(graph: Graph, node: Node, number: int) -> int:
    """Returns how many of the groups one CONV_2D computes."""
    w = graph.tensors[node.inputs[1]].spec
    most = WIDTH // max(w.shape[CHANNELS], w.shape[FILTERS] // number)
    return max((k for k in range(2, most + 1) if number % k == 0), default=1)


def _with_wide_filters(builder: GraphBuilder, node: Node, together: int) -> Node:
    """Returns the node with filters that read the channels of several groups.

    The filters are repeated for each of these groups, and multiplied by 1 for their own group and
    by 0 for others.
    """
    if together == 1:
        return node
    x, w, *bias = node.inputs
    name, spec = builder.tensors[w].name, builder.tensors[w].spec
    filters, *window, channels = spec.shape
    shape = (filters, *window, together * channels)
    repeated, wide = (builder.tensor(f"{name}/{n}", shape, spec) for n in ("repeated", "wide"))
    groups = builder.tensors[x].spec.shape[CHANNELS] // channels
    own = np.arange(filters) // (filters // groups) % together  # of the groups that are together
    is_own = own[:, None] == np.arange(together * channels) // channels
    mask = builder.constant(is_own[:, None, None].astype(spec.dtype), formula=True)
    builder.nodes += [
        _node("CONCATENATION", (w,) * together, repeated, node.origin, axis=CHANNELS),
        _node("MUL", (repeated, mask), wide, node.origin),
    ]
    return replace(node, inputs=(x, wide, *bias))


def _add_groups(builder: GraphBuilder, node: Node, number: int) -> None:
    """Adds a CONV_2D for each group, between SPLITs and a CONCATENATION."""
    x, w, *bias = node.inputs
    inputs = [
        _parts(builder, x, CHANNELS, number, node.origin),
        _parts(builder, w, FILTERS, number, node.origin),
        *(_parts(builder, b, 0, number, node.origin) for b in bias if b != ABSENT),
    ]
    (y,) = node.outputs
    name, spec = builder.tensors[y].name, builder.tensors[y].spec
    shape = (*spec.shape[:CHANNELS], spec.shape[CHANNELS] // number)
    outputs = [builder.tensor(f"{name}/group{k}", shape, spec) for k in range(number)]
    for output, *group in zip(outputs, *inputs, strict=True):
        read = tuple(group)
        builder.nodes.append(Node("CONV_2D", read, (output,), {}, node.origin, node.attrs))
    builder.nodes.append(_node("CONCATENATION", tuple(outputs), y, node.origin, axis=CHANNELS))


def _parts(builder: GraphBuilder, x: int, axis: int, number: int, origin: int) -> list[int]:
    """Adds a SPLIT of tensor x into equal parts; returns the parts."""
    tensor, at = builder.tensors[x], np.array(axis, np.int32)
    shape = list(tensor.spec.shape)
    shape[axis] //= number
    parts = [builder.tensor(f"{tensor.name}/group{k}", shape, tensor.spec) for k in range(number)]
    attrs = row_of("SPLIT").attrs({"num_splits": number}, {"axis": at})
    inputs = (builder.constant(at), x)
    builder.nodes.append(Node("SPLIT", inputs, tuple(parts), {}, origin, attrs))
    return parts


def _node(op: str, inputs: tuple[int, ...], y: int, origin: int, **options: int) -> Node:
    return Node(op, inputs, (y,), {}, origin, row_of(op).attrs(options, {}))
