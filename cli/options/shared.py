"""Options that commands share: the same name, meaning and help everywhere."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from odt.cli.options.types import Every, OfOutput, Property, Share, Size, Word
from odt.core.data.columns import open_columns
from odt.core.data.dataset import DataSet, target_check
from odt.core.model.training_info import LOSSES, OPTIMIZERS, REDUCTIONS
from odt.core.recipe.samples import SampleSpecs
from odt.core.runtime.runtime import Runtime
from odt.core.training.metrics import ACCURACY, METRICS
from odt.errors import OptionError

T = TypeVar("T")
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

# Fields of TrainingInfo that loss_options fill.
LOSS_FIELDS = ("loss", "output_losses", "loss_weights", "reduction")
# onert_train's numbers.
LOSS_IDS = {"1": "mean_squared_error", "2": "categorical_crossentropy"}
REDUCTION_IDS = {"1": "sum_over_batch_size", "2": "sum"}
METRIC_IDS = {"0": "categorical_accuracy"}
OPTIMIZER_IDS = {"1": "sgd", "2": "adam"}


def stack(*options: Decorator) -> Decorator:
    """Several options as one decorator; help lists them in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def given(option: str, value: T | None, what: str) -> T:
    """The option's value.

    Args:
        option: as the user types it.
        value: None if it was left out.
        what: it is, for the message.

    Raises:
        OptionError: if it was left out.
    """
    if value is None:
        raise OptionError(f"{option}: must be given: {what}.")
    return value


model_argument = click.argument("model", type=click.Path())

data_options = stack(
    click.option(
        "--load-input",
        type=click.Path(),
        metavar="FILE",
        help="Inputs of all samples: raw as onert_train's, .npy, .npz or .h5.",
    ),
    click.option(
        "--load-expected",
        type=click.Path(),
        metavar="FILE",
        help="What the outputs should be, sample by sample; formats as for inputs.",
    ),
)

check_data_option = click.option(
    "--check-data", is_flag=True, help="Look at all values before the first step."
)

schedule_options = stack(
    click.option("--batch-size", type=click.IntRange(1, 2**31 - 1), help="Samples in a step."),
    click.option(
        "--micro-batch",
        type=click.IntRange(1),
        help="Samples a worker runs at once; sets the memory. Chosen by odt if left out.",
    ),
    click.option(
        "--workers",
        type=click.IntRange(1),
        help="Threads, each with its own arena. Chosen by odt if left out.",
    ),
)

budget_option = click.option(
    "--memory-budget",
    type=Size(),
    metavar="SIZE",
    help="What training may take, such as 64MB or 64MiB; odt then chooses how it keeps to it.",
)

checkpoint_options = stack(
    click.option(
        "--checkpoint",
        type=click.Path(),
        metavar="FILE",
        help="Goes on from it; odt's own (.odt) says how and where, onert's only with what.",
    ),
    click.option(
        "--export-checkpoint",
        type=click.Path(),
        metavar="FILE",
        help="Writes the state of training; odt's own format for a name in .odt, else onert's.",
    ),
    click.option(
        "--export-checkpoint-every",
        type=Every(),
        show_default="epoch",
        help="How often: after each step, each epoch or N steps. At the end one is always written.",
    ),
    click.option(
        "--property",
        "properties",
        multiple=True,
        type=Property(),
        metavar="NAME=VALUE",
        help="Your own note in odt's checkpoint; may be given more than once.",
    ),
)

metric_option = click.option(
    "--metric",
    multiple=True,
    type=Word((ACCURACY, *METRICS), METRIC_IDS),
    help="What to measure besides the loss; accuracy is the one that fits the targets. "
    "May be given more than once.",
)

loss_options = stack(
    click.option(
        "--loss",
        type=Word(LOSSES, LOSS_IDS, "mean_squared_error"),
        help="What training makes small.",
    ),
    click.option(
        "--output-loss",
        "output_losses",
        multiple=True,
        callback=lambda ctx, param, value: value or None,
        type=OfOutput(Word((*LOSSES, "none"), LOSS_IDS), "OUTPUT=LOSS"),
        help="The loss on one output, by name or number; none for no loss. May be repeated.",
    ),
    click.option(
        "--loss-weight",
        "loss_weights",
        multiple=True,
        callback=lambda ctx, param, value: value or None,
        type=OfOutput(click.FloatRange(0), "OUTPUT=WEIGHT"),
        help="What the loss on one output counts; 1 if left out. May be repeated.",
    ),
    click.option(
        "--reduction",
        "--loss-reduction-type",
        "reduction",
        type=Word(REDUCTIONS, REDUCTION_IDS, "sum_over_batch_size"),
        help="How the losses of a batch become one.",
    ),
)

# What circle+ stores. All default to None: then the model's own value counts, then odt's.
training_options = stack(
    loss_options,
    click.option(
        "--optimizer", type=Word(OPTIMIZERS, OPTIMIZER_IDS, "sgd"), help="The update rule."
    ),
    click.option("--learning-rate", type=float, help="How far a step goes."),
    click.option(
        "--num-of-trainable-ops",
        type=click.IntRange(-1),
        metavar="N",
        help="Train the last N operators of the model; -1 all, 0 none.",
    ),
)

selection_options = stack(
    click.option(
        "--trainable",
        multiple=True,
        metavar="GLOB",
        help="Train only weights whose name or operator matches; may be given more than once.",
    ),
    click.option(
        "--freeze",
        multiple=True,
        metavar="GLOB",
        help="Leave weights as they are whose name or operator matches; likewise.",
    ),
    click.option("--bias-only", is_flag=True, help="Train biases and no other weights."),
    click.option(
        "--freeze-norm",
        is_flag=True,
        help="Leave BatchNorm as it is, where it is MUL and ADD by constants behind a product.",
    ),
)

sparse_option = click.option(
    "--sparse",
    multiple=True,
    type=Share(),
    metavar="GLOB=SHARE",
    help="Of filters whose name or operator matches train only this share of the output channels, "
    "those of largest norm; may be given more than once.",
)

# Of one optimizer or another; None: the model's own value, then the optimizer's default.
hyper_parameter_options = stack(
    click.option(
        "--momentum", type=click.FloatRange(0, 1), help="What sgd keeps of its last step."
    ),
    click.option(
        "--nesterov", is_flag=True, default=None, help="Lets sgd with momentum look ahead."
    ),
    click.option(
        "--weight-decay", type=click.FloatRange(0), help="Draws weights to 0, with any optimizer."
    ),
    click.option(
        "--beta-1",
        type=click.FloatRange(0, 1, max_open=True),
        help="What adam and adamw keep of the mean of gradients.",
    ),
    click.option(
        "--beta-2",
        type=click.FloatRange(0, 1, max_open=True),
        help="What adam and adamw keep of the mean of their squares.",
    ),
    click.option(
        "--epsilon", type=click.FloatRange(0), help="Keeps adam and adamw from dividing by 0."
    ),
)


def open_data(
    load_input: str | None, load_expected: str | None, model: Runtime | SampleSpecs
) -> DataSet:
    """The data files of a command, their sizes checked against the model.

    Raises:
        OptionError: if a file was not named.
        DataError: if one does not fit the model.
    """
    inputs = given("--load-input", load_input, "the file with the inputs of all samples")
    targets = given("--load-expected", load_expected, "the file with what the outputs should be")
    return DataSet(
        open_columns(inputs, model.input_specs, "input"),
        open_columns(targets, model.target_specs, "expected output"),
        [target_check(loss, spec) for loss, spec in model.losses],
    )
