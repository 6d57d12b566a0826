"""Splits a CONV_2D with groups of channels into one for each group, for runtimes without groups.

Filters (O, KH, KW, C) on G·C channels read C of them: the first O / G filters the first C channels,
and so on. onert computes other values for such filters. The weights stay one tensor.
"""

from odt.core.lowering.graph_builder import GraphBuilder, node_of
from odt.core.model.graph import ABSENT, LoweredGraph, Node
from odt.kernels.geometry.conv_geometry import number_of_groups

FILTERS, CHANNELS = 0, 3  # axes


def split_groups(graph: LoweredGraph) -> LoweredGraph:
    """Returns a graph without groups of channels; `graph` itself if there are none."""
    groups = [_groups_of(graph, node) for node in graph.nodes]
    if max(groups, default=1) == 1:
        return graph
    builder = GraphBuilder(graph)
    for node, number in zip(graph.nodes, groups, strict=True):
        if number == 1:
            builder.nodes.append(node)
        else:
            _add_groups(builder, node, number)
    return builder.graph()


def _groups_of(graph: LoweredGraph, node: Node) -> int:
    """Returns into how many groups a CONV_2D divides the channels; 1 for other operators."""
    if node.op != "CONV_2D":
        return 1
    x, w = (graph.tensors[i].spec for i in node.inputs[:2])
    return number_of_groups(x, w)


def _add_groups(builder: GraphBuilder, node: Node, number: int) -> None:
    """Adds a CONV_2D for each group, between SPLITs and a CONCATENATION."""
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
