"""The frozen part of a quantized model computes integers."""

from odt.core.lowering.integer_graph import integer_graph
from odt.core.lowering.integer_prefix import with_integer_prefix
from odt.core.lowering.lower import LoweredGraphs
from odt.core.planning.trainable import trainable_tensors
from odt.core.recipe.computations import trainable_operators
from odt.core.recipe.prepare import Recipe


def frozen_in_integers(recipe: Recipe) -> LoweredGraphs:
    """Returns the graphs of a recipe that computes integers, with integers in the frozen part."""
    graphs, info = recipe.graphs, recipe.info
    trainable = trainable_operators(graphs.graph, info)
    trained = trainable_tensors(graphs.at_file_batch, trainable, info.trainable_tensors)
    same = {i: i for i in range(len(recipe.model.graph.tensors))}
    graph = with_integer_prefix(graphs.graph, integer_graph(recipe.model), same, trained)
    return graphs if graph is graphs.graph else LoweredGraphs(graph)
