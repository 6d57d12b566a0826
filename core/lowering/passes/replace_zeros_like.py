"""Replaces ZEROS_LIKE by zeros of a known shape, so that its input need not be computed.

Keras computes the first step of a masked layer only for the shape of its output. The weights of
that step can have no gradient; those of the loop train.
"""

import numpy as np

from odt.core.lowering.graph_builder import GraphBuilder, node_of
from odt.core.model.graph import Graph, LoweredGraph


def replace_zeros_like(graph: LoweredGraph, file: Graph) -> LoweredGraph:
    """Returns a graph with FILL instead of ZEROS_LIKE, without nodes that only ZEROS_LIKE reads.

    ZEROS_LIKE stays if something else reads its input. The graph stays if an output would depend on
    no input, and so would have no axis of samples.
    """
    if not any(node.op == "ZEROS_LIKE" for node in graph.nodes):
        return graph
    builder = GraphBuilder(graph)
    read = {i for node in graph.nodes if node.op != "ZEROS_LIKE" for i in node.inputs}
    read.update(graph.inputs, graph.outputs)
    for node in graph.nodes:
        if node.op != "ZEROS_LIKE" or not read.isdisjoint(node.inputs):
            builder.nodes.append(node)
            continue
        spec = graph.tensors[node.outputs[0]].spec
        dims = np.array(spec.shape, np.int32)
        inputs = [builder.constant(a, formula=True) for a in (dims, np.zeros((), spec.dtype))]
        builder.nodes.append(node_of("FILL", inputs, node.outputs, node.origin, {"dims": dims}))
    builder.drop_unread()
    dependent = set(graph.inputs)
    for node in builder.nodes:
        if not dependent.isdisjoint(node.inputs):
            dependent.update(node.outputs)
    return builder.graph() if dependent.issuperset(graph.outputs) else graph
