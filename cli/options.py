"""Options that commands share: the same name, meaning and help everywhere."""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

from odt.core.data.columns import open_columns
from odt.core.data.dataset import DataSet, target_check
from odt.core.model.training_info import LOSSES, OPTIMIZERS, REDUCTIONS
from odt.core.runtime.runtime import Runtime, Samples
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
UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


class Word(click.ParamType[str]):
    """One of a few words, in any spelling, or onert_train's number for it.

    Gives the word with underscores, as the rest of odt has it.

    Args:
        words: that are legal.
        ids: onert_train's numbers for some of them, as it has them today.
        was: what its 0, now undefined, once meant.
    """

    name = "word"

    def __init__(
        self, words: Iterable[str], ids: Mapping[str, str] | None = None, was: str = ""
    ) -> None:
        self.words = tuple(words)
        self.ids = dict(ids or {})
        self.was = was

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"[{'|'.join(map(_kebab, self.words))}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        word = re.sub(r"[- ]", "_", str(value).strip().lower())
        word = self.ids.get(word, word)
        if word in self.words:
            return word
        if word == "0" and self.was:
            ids = ", ".join(f"{n} {_kebab(name)}" for n, name in self.ids.items())
            self.fail(
                f"0 is undefined in today's onert_train and was {_kebab(self.was)} in the first. "
                f"Give a word, or today's {ids}.",
                param,
                ctx,
            )
        close = difflib.get_close_matches(word, self.words, n=1)
        hint = f" Did you mean {_kebab(close[0])}?" if close else ""
        known = ", ".join(map(_kebab, self.words))
        self.fail(f"must be one of {known}, but got {value}.{hint}", param, ctx)


class Size(click.ParamType[int]):
    """Bytes: 1500000, 1500kB, 1.5MB (powers of ten) or 64MiB (powers of two)."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([a-z]*)", str(value), re.IGNORECASE)
        unit = UNITS.get(match[2].upper()) if match else None
        if match is None or unit is None:
            self.fail(f"must be a size such as 64MB or 64MiB, but got {value}.", param, ctx)
        return int(float(match[1]) * unit)


class Every(click.ParamType[int]):
    """step, epoch or a number of steps, as a number of steps; 0 for an epoch."""

    name = "every"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "[step|epoch|N]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        words = {"step": 1, "epoch": 0}
        text = str(value).strip().lower()
        if text in words:
            return words[text]
        if isinstance(value, int) or re.fullmatch("[1-9][0-9]{0,8}", text):
            return int(text)
        self.fail(f"must be step, epoch or a number of steps from 1, but got {value}.", param, ctx)


class Property(click.ParamType[tuple[str, str | int | float]]):
    """NAME=VALUE: an integer or a float where the value is one, else a string."""

    name = "property"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str | int | float]:
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not name or not equals:
            self.fail(f"must be NAME=VALUE, but got {value}.", param, ctx)
        if re.fullmatch(r"[+-]?[0-9]{1,18}", text):
            return name, int(text)
        if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,3})?", text, re.IGNORECASE):
            return name, float(text)
        return name, text


class Share(click.ParamType[tuple[str, float]]):
    """GLOB=SHARE, the share above 0 and at most 1."""

    name = "share"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        if isinstance(value, tuple):
            return value
        glob, _, text = str(value).rpartition("=")
        share = float(text) if re.fullmatch(r"[0-9]{0,3}\.?[0-9]{1,9}", text) else 0.0
        if not glob or not 0 < share <= 1:
            self.fail(f"must be GLOB=SHARE with a share above 0, up to 1, but got {value}.")
        return glob, share


class OfOutput(click.ParamType[tuple[str, Any]]):
    """OUTPUT=VALUE, the output by its tensor's name or its number.

    Args:
        value: the type of what is after the last equals sign.
        metavar: how help writes the whole.
    """

    name = "of output"

    def __init__(self, value: click.ParamType[Any], metavar: str) -> None:
        self.value, self.metavar = value, metavar

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return self.metavar

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Any]:
        if isinstance(value, tuple):
            return value
        output, _, text = str(value).rpartition("=")
        if not output:
            self.fail(f"must be {self.metavar}, but got {value}.", param, ctx)
        return output, self.value.convert(text, param, ctx)


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
    load_input: str | None, load_expected: str | None, model: Runtime | Samples
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


def _kebab(word: str) -> str:
    return word.replace("_", "-")
