"""Help in sections: each option names its section, and commands end with examples."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import click
from click.core import ParameterSource

from odt.core.options.option import (
    DATA,
    EXPORT,
    FEDERATION,
    LOSS,
    MEMORY,
    OPTIMIZER,
    OTHER,
    SELECTION,
    VALIDATION,
)
from odt.dataclass import dataclass
from odt.errors import OdtError

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

RUNS = "Recipes and runs"
ONE = "Samsung ONE's spellings"
# Sections of `odt train` and `odt fed simulate`, the most used first.
TRAINING = (FEDERATION, DATA, LOSS, OPTIMIZER, SELECTION, MEMORY, VALIDATION, EXPORT, RUNS, ONE)
CLOSE = 0.75  # least similarity of a name that a message proposes
NO_GPU = "odt computes on the cores of the processor, which --workers limits."
# Option of other tools, without dashes → what to use instead.
HINTS = {
    "gpu": NO_GPU,
    "gpus": NO_GPU,
    "device": NO_GPU,
    "cuda": NO_GPU,
    "dataset": "Use --data DIR, a folder of odt gen-datafile.",
    "early-stopping": "Use --patience N with --keep-best.",
    "lr-schedule": "Use --schedule NAME.",
    "lr-scheduler": "Use --schedule NAME.",
    "out": "Use --export-tflite, --export-circle or --output; --help lists what the command has.",
    "save": "Use --export-tflite, --export-circle or --run-dir.",
    "validation-data": "Use --validation-input and --validation-expected, or --validation-split.",
    "val-split": "Use --validation-split FRACTION.",
}
MANY = 20  # A command with more options than this lists the common ones, and all with --help-all.
ALL = f"{__name__}.all"  # in a context: whether the help lists all options
RAW_VALUES = f"{__name__}.raw"  # in a context: name of a parameter → its value before conversion
RECIPE = f"{__name__}.recipe"  # in a context: path of the recipe that --config has read


@dataclass(frozen=True, slots=True)
class Fits:
    """The sources of data that an option fits; options without effect are refused.

    Attributes:
        purpose: what the option is for, as in "is for time series in tables".
        formats: formats of the source; empty for all.
        kinds: kinds of samples, of Source.kind; empty for all.
        needs_classes: whether the targets must be classes.
        needs: options of which one must be given too.
        without: options that must not be given too.
        recorded: whether it has an effect with --as, where the record decides about the rest.
    """

    purpose: str = ""
    formats: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    needs_classes: bool = False
    needs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    recorded: bool = False


ALWAYS = Fits(recorded=True)


class Option(click.Option):
    """An option with the section of the help that lists it.

    Args:
        section: title of the section.
        common: whether the short help of a command with many options lists it.
        fits: which data the option fits; None for all.
    """

    def __init__(
        self,
        *args: Any,
        section: str,
        common: bool = False,
        fits: Fits | None = None,
        **attrs: Any,
    ) -> None:
        super().__init__(*args, **attrs)
        self.section = section
        self.common = common
        self.fits = fits or ALWAYS

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Converts a value; keeps the text of one that the user gave, for a recipe.

        Raises:
            click.BadParameter: if the value is invalid.
            OdtError: if the invalid value is that of a recipe, which the message names.
        """
        source = ctx.get_parameter_source(str(self.name))
        if source in (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP):
            ctx.meta.setdefault(RAW_VALUES, {})[self.name] = value
        try:
            return super().type_cast_value(ctx, value)
        except click.BadParameter as e:
            if source is ParameterSource.DEFAULT_MAP:
                key = usual_name(self).lstrip("-")
                raise OdtError(f"{ctx.meta[RECIPE]}: {key}: {e.message}") from e
            raise


def usual_name(parameter: click.Parameter) -> str:
    """Returns the first long name of an option, or the name of an argument, for messages."""
    return next((o for o in parameter.opts if o.startswith("--")), parameter.opts[0])


def is_typed(parameter: click.Parameter | None, ctx: click.Context | None) -> bool:
    """Whether a value stands on the command line, so that it may name code or a file to write.

    A value of a recipe may come from anywhere, and a parameter is None for other files.
    """
    if parameter is None or ctx is None:
        return False
    return ctx.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE


def typed_options(besides: Collection[str] = ()) -> list[str]:
    """Returns the usual names of the options on the command line.

    Args:
        besides: parameters to leave out.
    """
    ctx = click.get_current_context()
    options = [p for p in ctx.command.get_params(ctx) if isinstance(p, click.Option)]
    typed = [p for p in options if p.name not in besides and is_typed(p, ctx)]
    return [usual_name(p) for p in typed]


def _print_all(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Prints the help with all options, and exits."""
    if value and not ctx.resilient_parsing:
        ctx.meta[ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


class Command(click.Command):
    """A command whose help lists options in sections and ends with examples.

    If there are more than MANY options, --help lists the common ones, and --help-all lists all.

    Args:
        examples: command lines, printed as they are.
    """

    def __init__(self, *args: Any, examples: Sequence[str] = (), **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.examples = tuple(examples)
        self._is_long = sum(isinstance(p, click.Option) for p in self.params) > MANY
        if self._is_long:
            self.params.append(
                click.Option(
                    ["--help-all"],
                    is_flag=True,
                    is_eager=True,
                    expose_value=False,
                    callback=_print_all,
                    help="Show this message with all options and exit.",
                )
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses a command line; an extra argument gets a hint at the options for data files.

        Raises:
            click.UsageError: if the command line is invalid.
        """
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as e:
            raise _with_hint(e, ctx) from e
        except click.UsageError as e:
            takes_data = any(parameter.name == "load_input" for parameter in self.params)
            if not (takes_data and e.message.startswith("Got unexpected extra argument")):
                raise
            new = any(parameter.name == "as_record" for parameter in self.params)
            photos = ", new photos, sounds and tables by --source" if new else ""
            hint = f". Data are given by --data, --load-input and --load-expected{photos}."
            raise click.UsageError(e.message + hint, ctx) from e

    def sections(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """Returns the sections in order: title → (option names, help text) of each option.

        A shortened help has the common options only.
        """
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in TRAINING}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if isinstance(parameter, Option) and record:
                if self.is_shortened(ctx) and not parameter.common:
                    continue
                sections.setdefault(parameter.section, []).append(record)
            elif isinstance(parameter, click.Option) and record:
                sections.setdefault(OTHER, []).append(record)
        return sections | {OTHER: sections.pop(OTHER, [])}

    def is_shortened(self, ctx: click.Context) -> bool:
        """Whether the help leaves out options."""
        return self._is_long and not ctx.meta.get(ALL)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options, section by section."""
        for title, records in self.sections(ctx).items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples, and how to see the options that are left out."""
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                indent = " " * formatter.current_indent
                for example in self.examples:
                    lines = example.splitlines()
                    formatter.write("".join(f"{indent}{line}\n" for line in lines))
        if self.is_shortened(ctx):
            left_out = sum(isinstance(p, Option) and not p.common for p in self.params)
            formatter.write_paragraph()
            formatter.write_text(f"{ctx.command_path} --help-all shows {left_out} more options.")


def _with_hint(error: click.NoSuchOption, ctx: click.Context) -> click.NoSuchOption:
    """Returns the error with the names that are close, or with what to use instead."""
    import difflib

    name = error.option_name
    hint = HINTS.get(name.lstrip("-").replace("_", "-"))
    if hint is not None:
        return click.NoSuchOption(name, f"No such option: {name}. {hint}", ctx=ctx)
    close = difflib.get_close_matches(name, error.possibilities or (), n=3, cutoff=CLOSE)
    return click.NoSuchOption(name, error.message, close, ctx)


def option(section: str, *names: str, **attrs: Any) -> Decorator:
    """`click.option` with the section of the help that lists it."""
    return click.option(*names, cls=Option, section=section, **attrs)


def combine(*options: Decorator) -> Decorator:
    """Combines several options into one decorator. The help lists them in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(options):
            command = decorator(command)
        return command

    return decorate
