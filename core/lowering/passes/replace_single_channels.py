"""Replaces a CONV_2D whose groups have one channel each by a DEPTHWISE_CONV_2D.

A file has no option for groups; they follow from the shapes. Filters (O, KH, KW, 1) on C channels
read one of them each. A DEPTHWISE_CONV_2D reads them as (1, KH, KW, O). Source: grouped convolution
in TFLite's CONV_2D.
"""

from dataclasses import replace

from odt.core.lowering.graph_builder import GraphBuilder
from odt.core.model.graph import Graph, LoweredGraph, Node
from odt.kernels.geometry.conv_geometry import number_of_groups

FILTERS, CHANNELS = 0, 3  # axes


def replace_single_channels(graph: LoweredGraph, file: Graph) -> LoweredGraph:
    """Returns a graph without groups of one channel; `graph` itself if there are none."""
    if not any(_has_single_channels(graph, node) for node in graph.nodes):
        return graph
    builder = GraphBuilder(graph)
    for node in graph.nodes:
        if not _has_single_channels(graph, node):
            builder.nodes.append(node)
            continue
        x, w, *bias = node.inputs
        inputs = x, builder.transpose(w, (CHANNELS, 1, 2, FILTERS), node.origin), *bias
        depthwise = replace(node, op="DEPTHWISE_CONV_2D", inputs=inputs, options={})
        builder.nodes.append(depthwise)
    return builder.graph()


def _has_single_channels(graph: Graph, node: Node) -> bool:
    if node.op != "CONV_2D":
        return False
    x, w = (graph.tensors[i].spec for i in node.inputs[:2])
    return number_of_groups(x, w) > 1 and w.shape[CHANNELS] == 1
