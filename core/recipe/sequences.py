"""Samples of streaming models: sequences, of which each time step is a run of the model."""

from dataclasses import replace

from odt.core.lowering.normalize.inline import apply_masks
from odt.core.model.model import Model
from odt.core.model.variables import keeps_state
from odt.core.recipe.interface import check_signature
from odt.core.recipe.option_values import check_option
from odt.errors import OptionError


def with_sequences(
    model: Model, sequence_length: int | None, return_sequences: bool = False
) -> Model:
    """Returns a model whose samples are sequences: each time step is a run of the graph.

    Args:
        model: a model file.
        sequence_length: time steps in a sample; None leaves the model as it is.
        return_sequences: whether the outputs are those of all time steps, instead of the last one.

    Raises:
        OptionError: if the model keeps no state, or there is no time step.
    """
    if sequence_length is None:
        if return_sequences:
            raise OptionError("return_sequences", "must come with `sequence_length=`", "it alone")
        return model
    from odt.core.options.model_options import MODEL_OPTIONS

    check_option(MODEL_OPTIONS["sequence_length"], sequence_length)
    check_option(MODEL_OPTIONS["return_sequences"], return_sequences)
    if not keeps_state(apply_masks(model).graph):
        rule = "must be left out for a model that keeps no state from one run to the next"
        raise OptionError("sequence_length", rule, sequence_length)
    return replace(model, sequence_length=sequence_length, return_sequences=return_sequences)


def is_single_run(model: Model) -> bool:
    """Whether a sample is a single run of a model that keeps state."""
    return model.sequence_length is None and keeps_state(apply_masks(model).graph)


def need_sequences(model: Model) -> None:
    """Checks that the length of the sequences is given for a model that keeps state.

    Raises:
        OptionError: if it is not.
        UnsupportedError: as `check_signature` does.
    """
    check_signature(model)
    if is_single_run(model):
        raise OptionError(
            "sequence_length",
            f"must be given for {model.path}, which keeps state from one run to the next",
            "none",
            "It is the length of axis 1 of the inputs (N, time steps, …).",
        )
