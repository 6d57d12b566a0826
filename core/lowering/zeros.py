"""Makes zeros with the shape of a tensor without that tensor.

Keras finds the shape of a masked layer's output by computing its first step. Nothing reads the
values, so that the weights of this step have no gradient, and those that train are of the loop.
"""

import numpy as np

from odt.core.lowering.graph_builder import GraphBuilder, node_of
from odt.core.model.graph import LoweredGraph


def zeros_of_shapes(graph: LoweredGraph) -> LoweredGraph:
    """Returns a graph with FILL instead of ZEROS_LIKE, and without nodes of which only it reads.

    ZEROS_LIKE stays of a tensor that is read elsewhere, and if an output depends on no input
    without it: such an output would have no axis of samples.
    """
    build = GraphBuilder(graph)
    read = {i for node in graph.nodes if node.op != "ZEROS_LIKE" for i in node.inputs}
    read.update(graph.inputs, graph.outputs)
    for node in graph.nodes:
        if node.op != "ZEROS_LIKE" or not read.isdisjoint(node.inputs):
            build.nodes.append(node)
            continue
        spec = graph.tensors[node.outputs[0]].spec
        dims = np.array(spec.shape, np.int32)
        inputs = [build.constant(a, formula=True) for a in (dims, np.zeros((), spec.dtype))]
        build.nodes.append(node_of("FILL", inputs, node.outputs, node.origin, {"dims": dims}))
    build.drop_unread()
    dependent = set(graph.inputs)
    for node in build.nodes:
        if not dependent.isdisjoint(node.inputs):
            dependent.update(node.outputs)
    return build.graph() if dependent.issuperset(graph.outputs) else graph
