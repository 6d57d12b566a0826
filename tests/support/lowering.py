"""A file's graph lowered for one batch size."""

from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Graph, LoweredGraph


def lower(graph: Graph, batch: int) -> LoweredGraph:
    """Lowers for a batch size; for the file's, with the nodes of the file."""
    graphs = LoweredGraphs(graph)
    return graphs.at_file_batch if batch == graphs.file_batch else graphs.at(batch)
