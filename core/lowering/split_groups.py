"""Splits a CONV_2D with groups of channels into operators that compute one group each.

Filters (O, KH, KW, C) on G·C channels read C of them: the first O / G filters the first C channels,
and so on. A file has no option for groups; the shapes tell. Each group becomes a CONV_2D of its own
on a part of the channels, and filters of one channel a DEPTHWISE_CONV_2D. The weights stay one
tensor. Source: grouped convolution in TFLite's CONV_2D.
"""

import numpy as np

from odt.core.lowering.binding import row_of
from odt.core.lowering.graph_builder import GraphBuilder
from odt.core.model.graph import ABSENT, Graph, LoweredGraph, Node
from odt.kernels.geometry.conv_geometry import number_of_groups

FILTERS, CHANNELS = 0, 3  # axes


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
            _add_groups(builder, node, number)
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
    builder.nodes.append(Node("TRANSPOSE", read, (filters,), {}, node.origin, attrs))
    inputs = (x, filters, *bias)
    builder.nodes.append(
        Node("DEPTHWISE_CONV_2D", inputs, node.outputs, {}, node.origin, node.attrs)
    )


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
    attrs = row_of("CONCATENATION").attrs({"axis": CHANNELS}, {})
    builder.nodes.append(Node("CONCATENATION", tuple(outputs), (y,), {}, node.origin, attrs))


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
