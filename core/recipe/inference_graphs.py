"""The graphs that compute a model's outputs: of integers if the file is quantized."""

from collections.abc import Mapping

from odt.core.integers.integer_graph import integer_graph
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.model import Model
from odt.core.model.quantization_rules import has_quantized_activations
from odt.core.recipe.lowered_model import LoweredModel
from odt.core.recipe.trained_file import with_trained_weights
from odt.kernels.rows.opdef import Array


def inference_graphs(lowered: LoweredModel) -> LoweredGraphs:
    """Returns the graphs that compute a model's outputs: of integers if the file is quantized.

    Raises:
        ModelError: if the quantization of a tensor does not fit its operator.
    """
    model = lowered.unrolled
    if has_quantized_activations(model):
        return LoweredGraphs(integer_graph(model))
    return lowered.graphs


def trained_integers(
    model: Model, weights: Mapping[int, Array], computed: Model | None = None
) -> LoweredGraphs:
    """Returns the graphs that compute the integers of a quantized file after training.

    Args:
        model: the file as trained, with subgraphs inlined and time steps unrolled.
        weights: tensor of its `real_graph` → trained values, as for the export.
        computed: the file with other outputs; None for `model`.

    Raises:
        UnsupportedError: if weights cannot be stored in their type.
    """
    return LoweredGraphs(integer_graph(with_trained_weights(model, weights, computed)))
