"""The `odt` command: finds subcommands in cli/commands and turns errors into exit statuses.

A command is a module of cli/commands with an attribute `command`; adding a command is adding a
file. `odt --help` prints the first line of each module's docstring. It reads the line without
importing the module, because commands import the engine, which is slow.
"""

import errno
import importlib
import importlib.util
import os
import pkgutil
from collections.abc import Mapping, Sequence
from typing import Any

import click

import odt.cli.commands
from odt import __version__
from odt.cli.output.signals import printing
from odt.collector import quick_imports
from odt.errors import MAX_MESSAGE, OdtError, OptionError, OutputError, escaped, one_line

REDUCES_MEMORY = {"--memory-budget": "--memory-budget", "--batch-size": "a smaller --batch-size"}
# Former name of a command → words that replace it.
FORMER = {"diff": ("verify", "--diff"), "runs": ("report", "--list")}
# Task → its commands, in the order of the help.
TASKS = {
    "First steps": ("learn", "docs"),
    "Prepare data": ("gen-datafile", "data"),
    "Choose a model": ("new", "replace-head", "inspect", "check", "plan"),
    "Train and evaluate": ("train", "eval", "predict", "report", "checkpoint", "lora"),
    "Change models": ("quantize", "convert", "verify", "cut", "join", "circle-plus-gen", "package"),
    "Train on devices": ("benchmark-board", "artifacts", "compile", "personalize", "fed"),
}
# Word that people try → what they look for.
HINTS = {
    "help": "odt --help or odt docs",
    "info": "odt inspect",
    "summary": "odt inspect",
    "show": "odt inspect or odt data show",
    "export": "odt convert, or odt train with --export-tflite, --export-circle or --export-onnx",
    "evaluate": "odt eval",
    "test": "odt eval",
    "fit": "odt train, or odt learn",
    "classify": "odt learn, or odt predict with a trained model",
    "run": "odt predict",
    "infer": "odt predict",
    "benchmark": "odt plan",
    "prune": "odt train --sparse",
    "finetune": "odt train --num-of-trainable-ops N",
}
# Errors of the system about a path that the user gave.
UNUSABLE = {errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP, errno.EROFS}
INTERRUPTED = 130  # exit status that shells report after Ctrl-C


class Group(click.Group):
    """Click group of the commands. Prints an OdtError as one line, a bug with its traceback."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parses the options before the command, of which --help and --version print and exit."""
        try:
            with printing():
                return super().make_context(info_name, args, parent, **extra)
        except OutputError as e:
            raise click.ClickException(str(e)) from e

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names of the files in cli/commands."""
        modules = pkgutil.iter_modules(odt.cli.commands.__path__)
        return sorted(module.name.replace("_", "-") for module in modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports a command by its name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        with quick_imports():
            command = importlib.import_module(_module(cmd_name)).command
        assert isinstance(command, click.Command), "each module of cli/commands has one"
        command.name = cmd_name
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command named by the first argument; suggests a similar name on a miss.

        A former name still works, with a line that names the new spelling.
        """
        if words := FORMER.get(args[0]):
            if not ctx.resilient_parsing:  # not while the shell completes a word
                click.echo(f"odt {args[0]} is now: odt {' '.join(words)}", err=True)
            args = [*words, *args[1:]]
        if not ctx.resilient_parsing:
            _refuse_empty(args)
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as e:
            import difflib

            close = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            word = args[0].lower()
            if word in HINTS:
                hint = f" Use {HINTS[word]}."
            raise click.UsageError(e.format_message() + hint, ctx) from e

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the names and summaries of the commands, by task."""
        for task, names in TASKS.items():
            with formatter.section(task):
                formatter.write_dl([(name, summary(name)) for name in names])

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command and turns errors into one line and an exit status."""
        try:
            with printing():
                return super().invoke(ctx)
        except MemoryError as e:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            raise click.ClickException(message(ctx, memory_error(command, e))) from e
        except OdtError as e:
            raise click.ClickException(message(ctx, e)) from e
        except click.UsageError as e:
            # It may quote the name of a file, which may hold control characters of terminals.
            e.message = escaped(e.message)  # type: ignore[misc]  # final, but there is no other way
            raise
        except FileNotFoundError as e:
            if _has_folder():
                raise
            raise click.ClickException(
                "the current folder: must exist, but was removed. Change to another folder."
            ) from e
        except OSError as e:
            if e.errno not in UNUSABLE or e.filename is None:
                raise
            path = one_line(os.fsdecode(e.filename), MAX_MESSAGE // 2)
            reason = str(e.strerror).lower()
            rule = f"{path}: must be a path that can be used, but got: {reason}."
            raise click.ClickException(rule) from e
        except KeyboardInterrupt:
            click.echo("Stopped.", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None


def memory_error(command: click.Command | None, e: MemoryError) -> OdtError:
    """Returns an error that names the options that reduce a command's memory."""
    parameters = command.params if command else []
    names = {name for parameter in parameters for name in parameter.opts}
    options = " or ".join(text for name, text in REDUCES_MEMORY.items() if name in names)
    remedy = f"Give {options}." if options else "Free some and try again."
    return OdtError(f"memory: must be enough, but got: {str(e) or 'none left'}. {remedy}")


def message(ctx: click.Context, e: OdtError) -> str:
    """Returns the line of an error and, with --verbose, its details below."""
    text = str(e)
    if isinstance(e, OptionError):
        text = text.replace(f"but got {e.got}", f"but got {_typed(e.got)}")
    details = e.details.splitlines() if ctx.find_root().params.get("verbose") else []
    from odt.cli.output.spelling import spell  # imports the rows of all options

    return "\n  ".join([one_line(spell(text), MAX_MESSAGE), *map(spell, details)])


def _typed(value: object) -> str:
    """Returns a value of Python as the command line has it: without tuples, pairs and True."""
    if value is True:
        return "it"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, Mapping):
        items = (
            (name, "x".join(map(str, v)) if isinstance(v, tuple) else v)
            for name, v in value.items()
        )
        return ", ".join(f"{k}={v}" if k else str(v) for k, v in items)
    return str(value)


def summary(name: str) -> str:
    """Returns the first line of the docstring of a command's module."""
    spec = importlib.util.find_spec(_module(name))
    assert spec is not None, "each command has a module"
    loader: Any = spec.loader  # importlib.abc, which has its type, imports tempfile and more
    return str(loader.get_source(spec.name)).partition("\n")[0].strip('"')


def _refuse_empty(args: Sequence[str]) -> None:
    """Raises OdtError for an empty argument, such as a shell variable that has no value.

    An option with an empty value would have no effect, and an empty path is the current folder.
    """
    for before, arg in zip(("", *args), args, strict=False):
        option, equals, value = arg.partition("=")
        if arg and not (option.startswith("--") and equals and not value):
            continue
        name = option or (before if before.startswith("-") else "arguments")
        raise OdtError(f"{name}: must not be empty, but got an empty text.")


def _has_folder() -> bool:
    """Whether the current folder exists, without which no relative path has a meaning."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _module(name: str) -> str:
    return f"odt.cli.commands.{name.replace('-', '_')}"


def print_version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Prints odt's version, the kernels in use and why, and the platform, and exits."""
    if value:
        try:  # imported here, because no other option of this group needs them
            kernels = importlib.import_module("odt.kernels.native.library").describe_kernels()
        except OdtError as e:
            from odt.cli.output.spelling import spell  # as in `message`

            raise click.ClickException(spell(str(e))) from e
        platform = importlib.import_module("sysconfig").get_platform()
        click.echo(f"odt {__version__}, {kernels}, {platform}")
        ctx.exit()


version_option = click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=print_version,
    help="Show the version and the kernels in use, and exit.",
)


verbose_option = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    envvar="ODT_VERBOSE",
    help="Print the details of an error below its line.",
)


@click.group(
    cls=Group,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda token: token.replace("_", "-"),  # both spellings
    },
)
@version_option
@verbose_option
def main(verbose: bool) -> None:
    """Train Circle, TFLite and ONNX models on the device they run on.

    Start with your data: odt learn FOLDER -o OUT makes a model from photos or sounds in one folder
    per class, or from a table. odt docs one-page shows the commands that matter most.
    """
