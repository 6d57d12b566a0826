"""The frozen part of a float model computes int8 (`frozen_int8=`)."""

from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.model import Model
from odt.core.model.quantization_rules import has_quantized_activations
from odt.core.quantization.quantize_model import integer_model
from odt.core.recipe.frozen_integers import frozen_in_integers
from odt.core.recipe.prepare import Recipe
from odt.core.training.trace import OpenSamples
from odt.errors import OptionError


def check_frozen_int8(model: Model) -> None:
    """Raises OptionError for a quantized model, which computes integers without the option."""
    if has_quantized_activations(model):
        rule = "must come with a float model"
        remedy = "Leave it out: the frozen part computes integers already."
        raise OptionError("frozen_int8", rule, "a quantized one", remedy)


def frozen_in_int8(recipe: Recipe, open_samples: OpenSamples) -> LoweredGraphs:
    """Returns the graphs of a recipe, in which what does not train computes int8.

    Args:
        recipe: a recipe of a float model.
        open_samples: opens samples of the model's inputs; ranges are measured over some of them.

    Raises:
        OptionError: if nothing is frozen, or nothing in it can compute integers.
        UnsupportedError: if odt cannot quantize the model.
        DataError: if a sample cannot be read.
    """
    graphs = frozen_in_integers(recipe, integer_model(recipe.lowered.unrolled, open_samples))
    if graphs is recipe.graphs:
        rule = "must come with operators on activations before the first one that trains"
        raise OptionError("frozen_int8", rule, "none", "Train fewer layers, such as `last=2`.")
    return graphs
