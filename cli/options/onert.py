"""Command lines of Samsung ONE's onert_train, current and earlier releases.

A command line with an option name that only ONE has gets ONE's exit statuses: 1 for an invalid
argument, 255 for every other error. Names that onert_train and odt share, such as --batch_size, do
not count.
"""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import click

from odt.cli.main import memory_error, message, version_option
from odt.cli.options.rows import declare, declared_options, row_options
from odt.cli.options.sections import ONE, Command, combine
from odt.core.options.training_options import SELECTION_OPTIONS
from odt.dataclass import dataclass
from odt.errors import OdtError

# Option names that only ONE has → odt's option; None if the value is the model.
NAMES: Mapping[str, str | None] = {
    "--load_input:raw": "--load-input",
    "--load_expected:raw": "--load-expected",
    "--epoch": "--epochs",
    "-m": "--mem-poll",
    # Names of earlier releases.
    "--export_path": "--export-circle",
    "--trainable_ops_idx": "--trainable-ops",
    "--modelfile": None,
    "--nnpackage": None,
    "--path": None,
}
EACH_STEP = "--export_checkpoint"  # with underscore: after each step
OUTPUT_SIZES = "--output_sizes"
SPELLINGS = [  # as listed by the help
    *((name, f"Same as {option or 'MODEL'}.") for name, option in NAMES.items()),
    (EACH_STEP, "Same as --export-checkpoint with --export-checkpoint-every step."),
    (OUTPUT_SIZES, "Ignored."),
]
BOOLEANS = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}
MUST_EXIST = ("model", "checkpoint", "load_input", "load_expected")
LATE = ("last",)  # checked by the onert runtime, whose errors exit with 255


class BadArgument(click.UsageError):
    """An invalid value of an option that onert_train checks."""

    exit_code = 1


class BadLine(click.UsageError):
    """A command line that onert_train cannot parse."""

    exit_code = 255


class RuntimeFailure(click.ClickException):
    """Any other error."""

    exit_code = 255


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What is printed besides the lines of training."""

    verbose_level: int = declare(
        ONE,
        "-v",
        "--verbose-level",
        type=click.IntRange(0, 2),
        default=0,
        help="Verbosity. 1 prints where each training parameter comes from and which kernels "
        "are used.",
    )
    mem_poll: bool = declare(
        ONE,
        "--mem-poll",
        is_flag=True,
        help="Report the memory of the process in each phase.",
    )


one_options = combine(
    version_option, row_options(SELECTION_OPTIONS, "operators"), declared_options(ReportOptions)
)


class OneCommand(Command):
    """A command that also accepts the command lines of onert_train."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parses a command line after translating onert_train's option names."""
        words, spelled = translate(args, self._flags())
        if not spelled:
            return super().make_context(info_name, words, parent, **extra)
        try:
            check_output_sizes(args)
            ctx = super().make_context(info_name, words, parent, **extra)
            _check(ctx)
        except click.UsageError as e:
            raise _as_one(e) from e
        ctx.meta[__name__] = True
        return ctx

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command. With onert_train's spellings, errors have its form and exit status."""
        try:
            return super().invoke(ctx)
        except (OdtError, MemoryError) as e:
            if __name__ not in ctx.meta:
                raise
            error = memory_error(self, e) if isinstance(e, MemoryError) else e
            raise RuntimeFailure(message(ctx, error)) from e

    def sections(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """Adds the section of onert_train's spellings."""
        sections = super().sections(ctx)
        if not self.is_shortened(ctx):
            sections[ONE] += SPELLINGS
        return sections

    def _flags(self) -> frozenset[str]:
        options = (p for p in self.params if isinstance(p, click.Option))
        names = {name for p in options if p.is_flag for name in (*p.opts, *p.secondary_opts)}
        return frozenset(names | {"-h", "--help"})


def spelled_as_one() -> bool:
    """Whether the command line has an option name that only ONE has."""
    return __name__ in click.get_current_context().meta


def translate(args: Sequence[str], flags: frozenset[str]) -> tuple[list[str], bool]:
    """Translates a command line of onert_train to odt's option names.

    Args:
        args: words of the command line, after the command.
        flags: odt's options without a value.

    Returns:
        The translated words, and whether one of the option names exists only in ONE.
    """
    words: list[str] = []
    models: list[str] = []
    has_one_name = False
    rest = list(args)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            words += [word, *rest]
            break
        if not word.startswith("-"):
            words.append(word)
            continue
        if name == "--mem_poll":  # a switch, but with a value in earlier releases
            text = value if equals else next(iter(rest), "")
            is_on = BOOLEANS.get(text.lower())
            if is_on is not None:
                has_one_name = True
                if is_on:
                    words.append("--mem-poll")
                if not equals:
                    rest.pop(0)
                continue
        one = _one_name(name)
        option = name.replace("_", "-") if one is None else NAMES.get(one, one)
        has_one_name |= one is not None
        if option in flags:
            words.append(option + equals + value)
            continue
        attached = not word.startswith("--") and len(word) > 2  # -v1
        values = [value] if equals else [rest.pop(0)] if rest and not attached else []
        if one == OUTPUT_SIZES or (option == "--metric" and values == ["-1"]):
            continue  # onert_train ignores the sizes; metric −1 means none
        if option is None:
            models += values
            continue
        if one == EACH_STEP:
            words += ["--export-checkpoint-every", "step"]
            option = "--export-checkpoint"
        words += [option, *values]
    return [*models, *words], has_one_name


def _one_name(name: str) -> str | None:
    """The name in ONE's spelling if only ONE has it; None for odt's own names."""
    if name == EACH_STEP:
        return name
    spelled = f"--{name[2:].replace('-', '_')}" if name.startswith("--") else name
    return spelled if spelled in NAMES or spelled == OUTPUT_SIZES else None


def check_output_sizes(args: Sequence[str]) -> None:
    """Checks that --output_sizes is a list [output, size, …], as onert_train does.

    Raises:
        click.BadParameter: if it is not.
    """
    for k, word in enumerate(args):
        name, equals, value = word.partition("=")
        if _one_name(name) != OUTPUT_SIZES:
            continue
        text = value if equals else next(iter(args[k + 1 :]), "")
        try:
            sizes = json.loads(text)
        except (ValueError, RecursionError):
            sizes = None
        legal = isinstance(sizes, list) and len(sizes) % 2 == 0
        if not legal or not all(type(n) is int and n >= 0 for n in sizes):
            raise click.BadParameter(
                f"must be a list of output numbers and sizes such as [0, 40], but got {text}.",
                param_hint=OUTPUT_SIZES,
            )


def _check(ctx: click.Context) -> None:
    """Makes the checks that onert_train makes before it starts."""
    for name in MUST_EXIST:
        path = ctx.params.get(name)
        if path is not None and not os.path.exists(path):
            raise click.BadParameter(f"Cannot find: {path}", ctx, param_hint=name)
    fraction = ctx.params.get("validation_split", 0.0)
    if not 0 <= fraction <= 1:
        raise click.BadParameter(
            f"must be 0 … 1, but got {fraction:g}.", ctx, param_hint="validation_split"
        )


def _as_one(error: click.UsageError) -> click.UsageError:
    """Chooses the exit status: 1 for onert_train's own checks, 255 for its parser and runtime."""
    parameter = getattr(error, "param", None)
    late = parameter is not None and parameter.name in LATE
    is_parameter = isinstance(error, click.BadParameter) and not late
    return (BadArgument if is_parameter else BadLine)(error.format_message(), error.ctx)
