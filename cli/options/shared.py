"""Options shared by several commands, with one name, meaning and help text."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TypeVar

import click

from odt.cli.options.completion import complete_models
from odt.cli.options.rows import keyword_options, recipe_options, row_options
from odt.cli.options.sections import combine
from odt.core.options.fit_options import FIT_OPTIONS
from odt.core.options.model_options import MODEL_OPTIONS
from odt.core.options.schedule_options import SCHEDULE_OPTIONS
from odt.core.options.session_options import SESSION_OPTIONS
from odt.core.options.training_options import HYPER_OPTIONS, SELECTION_OPTIONS, STEP_OPTIONS
from odt.errors import OdtError, OptionError

T = TypeVar("T")


def require(option: str, value: T | None, what: str) -> T:
    """Returns the value of an option that a command requires.

    Args:
        option: name of the option, as the user types it.
        value: its value, None if it was left out.
        what: description of the value, for the message.

    Raises:
        OdtError: if it was left out.
    """
    if value is None:
        raise OdtError(f"{option}: must be given: {what}.")
    return value


@contextmanager
def errors_as(field: str, names: Collection[str]) -> Iterator[None]:
    """Names the options that the user gave in errors about an argument that they determine.

    Args:
        field: name of the argument.
        names: names of the options, as the rows or functions have them; empty for no other name.

    Raises:
        OptionError: in place of one about the argument.
    """
    try:
        yield
    except OptionError as e:
        if e.field != field or not names:
            raise
        raise OptionError(", ".join(names), e.rule, e.got, e.remedy) from e


model_argument = click.argument("model", type=click.Path(), shell_complete=complete_models)

signature_option = keyword_options(MODEL_OPTIONS, "signature")
input_options = keyword_options(MODEL_OPTIONS, "input_shapes", "input_values")
interface_options = combine(signature_option, input_options)
max_detections_option = keyword_options(MODEL_OPTIONS, "max_detections")
anchors_option = keyword_options(MODEL_OPTIONS, "anchors")
sequence_options = keyword_options(MODEL_OPTIONS, "sequence_length", "return_sequences")
check_data_option = keyword_options(FIT_OPTIONS, "check_data")
batch_size_option = recipe_options("batch_size")
schedule_options = row_options(SCHEDULE_OPTIONS)
# Options of the steps of training: those that federations have, too, and the others.
gradient_options = row_options({n: row for n, row in STEP_OPTIONS.items() if row.federated})
regularization_options = combine(
    recipe_options("dropout"),
    row_options({n: row for n, row in STEP_OPTIONS.items() if not row.federated}),
)

budget_option = keyword_options(SESSION_OPTIONS, "memory_budget")
checkpoint_option = keyword_options(SESSION_OPTIONS, "checkpoint")
metric_option = keyword_options(SESSION_OPTIONS, "metrics")
task_option = keyword_options(SESSION_OPTIONS, "task")

loss_options = recipe_options("loss", "output_losses", "loss_weights", "reduction")

sample_weight_option = keyword_options(FIT_OPTIONS, "sample_weight")

last_operators_option = row_options(SELECTION_OPTIONS, "last")

# Training info that circle+ can store. The default None selects the model's value, else odt's.
training_options = combine(
    loss_options, recipe_options("optimizer", "learning_rate"), last_operators_option
)

selection_options = keyword_options(
    SELECTION_OPTIONS, "patterns", "freeze", "bias_only", "freeze_norm"
)
sparse_option = recipe_options("sparse")

# The default None selects the model's value, then the optimizer's default.
hyper_parameter_options = row_options(HYPER_OPTIONS)
