"""The frozen part of a model computes integers."""

from collections.abc import Mapping

from odt.core.integers.integer_graph import integer_graph
from odt.core.integers.integer_prefix import with_integer_prefix
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.model import Model
from odt.core.recipe.computations import trained_tensors
from odt.core.recipe.prepare import Recipe


def frozen_in_integers(
    recipe: Recipe, integers: tuple[Model, Mapping[int, int]] | None = None
) -> LoweredGraphs:
    """Returns the graphs of a recipe with integers in the frozen part, or those of the recipe.

    Args:
        recipe: a recipe that computes integers, or of a float model.
        integers: the float model quantized, and the number of each of its tensors there; None for
            a quantized model.
    """
    graphs, info = recipe.graphs, recipe.info
    trained = trained_tensors(graphs, info)
    if not trained:
        return graphs
    unrolled = recipe.lowered.unrolled
    same = {i: i for i in range(len(unrolled.graph.tensors))}
    model, number = integers or (unrolled, same)
    graph = with_integer_prefix(graphs.graph, integer_graph(model), number, trained)
    return graphs if graph is graphs.graph else LoweredGraphs(graph)
