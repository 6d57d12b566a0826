"""Splits a CONV_2D with groups of channels into operators that compute one or a few groups each.

Filters (O, KH, KW, C) on G·C channels read C of them: the first O / G filters the first C channels,
and so on. A file has no option for groups; they follow from the shapes. Each group becomes a
separate CONV_2D on a part of the channels, and filters of one channel become a DEPTHWISE_CONV_2D.
Narrow groups, which would leave parts of vectors empty, are computed together, with weights of 0
between them. The weights stay one tensor. Source: grouped convolution in TFLite's CONV_2D.
"""

from dataclasses import replace

import numpy as np

from odt.core.lowering.graph_builder import GraphBuilder, node_of
from odt.core.model.graph import ABSENT, Graph, LoweredGraph, Node
from odt.kernels.geometry.conv_geometry import number_of_groups
from odt.kernels.rows.opdef import TensorSpec

FILTERS, CHANNELS = 0, 3  # axes
# Most channels of narrow groups that one CONV_2D computes. A ResNeXt with groups of 4 channels took
# 0.70 of the time with AVX-512 and 0.81 with AVX2; 8 gave 0.82 and 0.74, 32 gave 0.77 and 0.92.
WIDTH = 16


def split_groups(graph: LoweredGraph, file: Graph) -> LoweredGraph:
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
    filters = builder.transpose(w, (CHANNELS, 1, 2, FILTERS), node.origin)
    inputs = x, filters, *bias
    builder.nodes.append(replace(node, op="DEPTHWISE_CONV_2D", inputs=inputs, options={}))


def _add_groups(builder: GraphBuilder, node: Node, number: int) -> None:
    """Adds a CONV_2D for each group or several narrow ones, between SPLITs and a CONCATENATION."""
    together = _groups_together(builder.tensors[node.inputs[1]].spec, number)
    if together > 1:
        node = _with_wide_filters(builder, node, number, together)
        number //= together
    if number == 1:
        builder.nodes.append(node)
        return
    x, w, *bias = node.inputs
    inputs = [
        builder.split(x, CHANNELS, number, node.origin),
        builder.split(w, FILTERS, number, node.origin),
        *(builder.split(b, 0, number, node.origin) for b in bias if b != ABSENT),
    ]
    (y,) = node.outputs
    name, spec = builder.tensors[y].name, builder.tensors[y].spec
    shape = (*spec.shape[:CHANNELS], spec.shape[CHANNELS] // number)
    outputs = [builder.tensor(f"{name}/group{k}", shape, spec) for k in range(number)]
    for output, *group in zip(outputs, *inputs, strict=True):
        read = tuple(group)
        builder.nodes.append(Node("CONV_2D", read, (output,), {}, node.origin, node.attrs))
    builder.nodes.append(node_of("CONCATENATION", outputs, (y,), node.origin, axis=CHANNELS))


def _groups_together(filters: TensorSpec, number: int) -> int:
    """Returns how many of the groups one CONV_2D computes: a divisor of their number."""
    most = WIDTH // max(filters.shape[CHANNELS], filters.shape[FILTERS] // number)
    return max((k for k in range(2, most + 1) if number % k == 0), default=1)


def _with_wide_filters(builder: GraphBuilder, node: Node, number: int, together: int) -> Node:
    """Returns the node with filters that read the channels of several groups.

    The filters are repeated for each of these groups, and multiplied by 1 for their own group and
    by 0 for others.
    """
    x, w, *bias = node.inputs
    name, spec = builder.tensors[w].name, builder.tensors[w].spec
    filters, *window, channels = spec.shape
    shape = (filters, *window, together * channels)
    repeated, wide = (builder.tensor(f"{name}/{n}", shape, spec) for n in ("repeated", "wide"))
    group_of_filter = np.arange(number).repeat(filters // number) % together
    mask = group_of_filter[:, None] == np.arange(together).repeat(channels)
    factors = builder.constant(mask[:, None, None].astype(spec.dtype), formula=True)
    builder.nodes += [
        node_of("CONCATENATION", (w,) * together, (repeated,), node.origin, axis=CHANNELS),
        node_of("MUL", (repeated, factors), (wide,), node.origin),
    ]
    return replace(node, inputs=(x, wide, *bias))
