"""Merges a PAD into the convolution that alone reads it.

A converter writes zeros that SAME cannot describe as a PAD before a VALID convolution: one zero
before and after each row with stride 2, for example. The padded images would be the largest values
of many networks, and the convolution can read the zeros without them.
"""

from dataclasses import replace

from odt.core.model.graph import Graph, LoweredGraph, Node
from odt.kernels.geometry.conv_geometry import ConvAttrs
from odt.kernels.geometry.window import VALID

CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")


def merge_pads(graph: LoweredGraph, file: Graph) -> LoweredGraph:
    """Returns a graph in which convolutions add the zeros of a PAD; `graph` itself if none can."""
    pads = {node.outputs[0]: node for node in graph.nodes if node.op == "PAD"}
    if not pads:
        return graph
    readers = graph.count_reads()
    nodes, unread = list[Node](), set[int]()
    for node in graph.nodes:
        pad = pads.get(node.inputs[0]) if node.op in CONVOLUTIONS else None
        if pad is None or readers[node.inputs[0]] > 1 or not _fits(graph, node, pad):
            nodes.append(node)
            continue
        _, *zeros, _ = pad.attrs.pads  # of the axes between samples and channels
        attrs = replace(node.attrs, zeros=tuple(zeros))
        nodes.append(replace(node, inputs=(pad.inputs[0], *node.inputs[1:]), attrs=attrs))
        unread.update(pad.outputs)
    others = tuple(node for node in nodes if not unread.intersection(node.outputs))
    return replace(graph, nodes=others) if unread else graph


def _fits(graph: LoweredGraph, node: Node, pad: Node) -> bool:
    """Whether a convolution without padding can add the zeros: less than a window on each side."""
    attrs: ConvAttrs = node.attrs
    if attrs.padding != VALID or len(pad.attrs.pads) != 4:
        return False
    samples, *images, channels = pad.attrs.pads
    kernel = graph.tensors[node.inputs[1]].spec.shape[1:3]
    spans = ((k - 1) * d + 1 for k, d in zip(kernel, attrs.dilation, strict=True))
    inside = all(max(zeros) < span for zeros, span in zip(images, spans, strict=True))
    return inside and not any((*samples, *channels))
