"""Options shared by several commands, with one name, meaning and help text."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from odt.cli.options.rows import keyword_options, row_options
from odt.cli.options.sections import combine, option
from odt.cli.options.types import (
    GlobRate,
    GlobValue,
    LossText,
    OfOutput,
    Word,
)
from odt.core.options.fit_options import FIT_OPTIONS
from odt.core.options.model_options import MODEL_OPTIONS
from odt.core.options.option import DATA, LOSS, OPTIMIZER, SELECTION
from odt.core.options.schedule_options import SCHEDULE_OPTIONS
from odt.core.options.session_options import SESSION_OPTIONS
from odt.core.options.training_options import TRAINING_OPTIONS
from odt.errors import OdtError
from odt.kernels.registry import LOSSES, OPTIMIZERS
from odt.kernels.rows.row_index import HYPER_PARAMETERS

T = TypeVar("T")

# Fields of TrainingInfo that loss_options fill.
LOSS_FIELDS = ("loss", "output_losses", "loss_weights", "reduction")
# Numbers that onert_train accepts for names.
REDUCTIONS = {"1": "sum_over_batch_size", "2": "sum"}


def given(option: str, value: T | None, what: str) -> T:
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


model_argument = click.argument("model", type=click.Path())

input_option = option(
    DATA,
    "--load-input",
    common=True,
    type=click.Path(),
    metavar="FILE",
    help="Model inputs of all samples: raw float32 as for onert_train, .npy, .npz or .h5.",
)

data_options = combine(
    input_option,
    option(
        DATA,
        "--load-expected",
        common=True,
        type=click.Path(),
        metavar="FILE",
        help="Expected outputs (targets) of all samples, in the same formats.",
    ),
)

signature_option = keyword_options(MODEL_OPTIONS, "signature")
interface_options = keyword_options(MODEL_OPTIONS, "signature", "input_shapes")
sequence_options = keyword_options(MODEL_OPTIONS, "sequence_length", "return_sequences")
check_data_option = keyword_options(FIT_OPTIONS, "check_data")
batch_size_option = row_options({"batch_size": SCHEDULE_OPTIONS["batch_size"]})
schedule_options = row_options(SCHEDULE_OPTIONS)
# Options of the steps of training: those that federations have, too, and the others.
gradient_options = row_options({n: row for n, row in TRAINING_OPTIONS.items() if row.federated})
regularization_options = combine(
    option(
        OPTIMIZER,
        "--dropout",
        multiple=True,
        type=GlobRate(),
        help="Dropout: during training, set inputs of trained FULLY_CONNECTED layers to 0 with "
        "probability RATE. GLOB selects layers by the names of their weights; without GLOB, the "
        "last one. Repeatable.",
    ),
    row_options({n: row for n, row in TRAINING_OPTIONS.items() if not row.federated}),
)

budget_option = keyword_options(SESSION_OPTIONS, "memory_budget")
checkpoint_option = keyword_options(SESSION_OPTIONS, "checkpoint")
metric_option = keyword_options(SESSION_OPTIONS, "metrics")

loss_options = combine(
    option(
        LOSS,
        "--loss",
        common=True,
        type=LossText(LOSSES, was="mean_squared_error"),
        help="Loss function. Hyper-parameters follow a colon: huber:delta=0.5, "
        "categorical-crossentropy:label-smoothing=0.1.",
    ),
    option(
        LOSS,
        "--output-loss",
        "output_losses",
        multiple=True,
        callback=lambda ctx, param, value: value or None,
        type=OfOutput(LossText(LOSSES, also=("none",)), "OUTPUT=LOSS"),
        help="Loss function of one output, by name or number; none for no loss. Repeatable.",
    ),
    option(
        LOSS,
        "--loss-weight",
        "loss_weights",
        multiple=True,
        callback=lambda ctx, param, value: value or None,
        type=OfOutput(click.FloatRange(0), "OUTPUT=WEIGHT"),
        help="Weight of one output's loss in the total loss; 1 if left out. Repeatable.",
    ),
    option(
        LOSS,
        "--reduction",
        "--loss-reduction-type",
        "reduction",
        type=Word(tuple(REDUCTIONS.values()), REDUCTIONS, "sum_over_batch_size"),
        help="Reduction of the sample losses of a batch to one value.",
    ),
)

sample_weight_option = keyword_options(FIT_OPTIONS, "sample_weight")

last_operators_option = option(
    SELECTION,
    "--num-of-trainable-ops",
    common=True,
    type=click.IntRange(-1),
    metavar="N",
    help="Train the last N operators of the model, without conversions and operators "
    "without gradient at its end; -1 for all, 0 for none.",
)

# Training info that circle+ can store. The default None selects the model's value, else odt's.
training_options = combine(
    loss_options,
    option(
        OPTIMIZER,
        "--optimizer",
        common=True,
        type=Word(OPTIMIZERS, was="sgd"),
        help="Optimizer.",
    ),
    option(
        OPTIMIZER,
        "--learning-rate",
        "--lr",
        common=True,
        type=float,
        help="Learning rate. Default: the optimizer's; less for a model that is already trained.",
    ),
    last_operators_option,
)

selection_options = combine(
    option(
        SELECTION,
        "--trainable",
        multiple=True,
        metavar="GLOB",
        help="Train only weights whose name or operator matches GLOB. Repeatable.",
    ),
    option(
        SELECTION,
        "--freeze",
        multiple=True,
        metavar="GLOB",
        help="Freeze weights whose name or operator matches GLOB. Repeatable.",
    ),
    option(SELECTION, "--bias-only", is_flag=True, help="Train biases only."),
    option(
        SELECTION,
        "--freeze-norm",
        is_flag=True,
        help="Freeze batch normalization, which converters store as MUL and ADD with constants.",
    ),
)

sparse_option = option(
    SELECTION,
    "--sparse",
    multiple=True,
    type=GlobValue("fraction", maximum=1),
    help="Sparse training: train only this fraction of the output channels, those with the "
    "largest norm, in filters whose name or operator matches GLOB. Repeatable.",
)


def hyper_parameter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options for the hyper-parameters of all optimizers.

    None: the model's own value, then the optimizer's default.
    """
    options = []
    for name, (text, most, below, switch) in HYPER_PARAMETERS.items():
        option_name = "--" + name.replace("_", "-")
        if switch:
            made = option(OPTIMIZER, option_name, is_flag=True, default=None, help=text)
        else:
            kind = click.FloatRange(0, most, max_open=below)
            made = option(OPTIMIZER, option_name, type=kind, help=text)
        options.append(made)
    return combine(*options)(command)
