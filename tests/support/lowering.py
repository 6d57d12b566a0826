"""A file's graph lowered for one batch size."""

from odt.core.lowering.lower import LoweredGraphs
from odt.core.lowering.passes.push_transposes import is_view
from odt.core.model.graph import Graph, LoweredGraph


def lower(graph: Graph, batch: int) -> LoweredGraph:
    """Lowers for a batch size; for the file's, with the nodes of the file."""
    graphs = LoweredGraphs(graph)
    return graphs.at_file_batch if batch == graphs.file_batch else graphs.at(batch)


def transposed_values(graph: LoweredGraph, *, constants: bool = False) -> int:
    """Counts the values that TRANSPOSEs move in memory.

    Args:
        graph: a lowered graph.
        constants: count only values that do not depend on the inputs.
    """
    data, count = {*graph.inputs}, 0
    for node in graph.nodes:
        if not data.isdisjoint(node.inputs):
            data.update(node.outputs)
        if node.op == "TRANSPOSE" and not (constants and node.inputs[0] in data):
            spec = graph.tensors[node.inputs[0]].spec
            count += 0 if is_view(spec.shape, node.attrs.axes(spec)) else spec.size
    return count
