"""Command lines of Samsung ONE's onert_train, today's and former ones, read as odt's own.

A line with a spelling that only ONE has gets ONE's exit statuses: 1 for an argument that cannot
be, 255 for everything else. Names that both have, such as --batch_size, decide nothing.
"""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import click

from odt.cli.main import memory_error, message, version_option
from odt.cli.options.shared import stack
from odt.errors import OdtError

# Spellings that only ONE has → odt's; None: the value is the model.
NAMES: Mapping[str, str | None] = {
    "--load_input:raw": "--load-input",
    "--load_expected:raw": "--load-expected",
    "--epoch": "--epochs",
    "-m": "--mem-poll",
    # Former ones.
    "--export_path": "--export-circle",
    "--trainable_ops_idx": "--trainable-ops",
    "--modelfile": None,
    "--nnpackage": None,
    "--path": None,
}
EACH_STEP = "--export_checkpoint"  # in this spelling after each step; with dashes each epoch
OUTPUT_SIZES = "--output_sizes"
BOOLEANS = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}
MUST_EXIST = ("model", "checkpoint", "load_input", "load_expected")
FOUND_LATE = ("num_of_trainable_ops",)  # onert_train asks the runtime, and its refusals are 255


class BadArgument(click.UsageError):
    """A value that onert_train looks at and refuses."""

    exit_code = 1


class BadLine(click.UsageError):
    """A line that onert_train cannot read."""

    exit_code = 255


class Failed(click.ClickException):
    """Anything else."""

    exit_code = 255


one_options = stack(
    version_option,
    click.option(
        "--trainable-ops",
        metavar="LIST",
        help="Train these operators, by position in the file: 0-3,7.",
    ),
    click.option(
        "--data-length",
        type=click.IntRange(1),
        metavar="N",
        help="Uses the first N samples only, to train and to validate.",
    ),
    click.option(
        "-v",
        "--verbose-level",
        type=click.IntRange(0, 2),
        default=0,
        help="1 says where each value of the parameter block comes from, and what computes.",
    ),
)


class OneCommand(click.Command):
    """A command that takes onert_train's lines beside its own."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
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
        try:
            return super().invoke(ctx)
        except (OdtError, MemoryError) as e:
            if __name__ not in ctx.meta:
                raise
            error = memory_error(self, e) if isinstance(e, MemoryError) else e
            raise Failed(message(ctx, error)) from e

    def _flags(self) -> frozenset[str]:
        options = (p for p in self.params if isinstance(p, click.Option))
        names = {name for p in options if p.is_flag for name in (*p.opts, *p.secondary_opts)}
        return frozenset(names | {"-h", "--help"})


def spelled_as_one() -> bool:
    """Whether the line had a spelling that only ONE has."""
    return __name__ in click.get_current_context().meta


def translate(args: Sequence[str], flags: frozenset[str]) -> tuple[list[str], bool]:
    """A line in odt's spelling, and whether it had one that only ONE has.

    Args:
        args: words of the line, without the command.
        flags: odt's options without a value.
    """
    words: list[str] = []
    models: list[str] = []
    found = False
    rest = list(args)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            words += [word, *rest]
            break
        once = value if equals else rest[0] if rest else ""
        if name == "--mem_poll" and once.lower() in BOOLEANS:  # it once had a value
            found = True
            words += ["--mem-poll"] * BOOLEANS[once.lower()]
            del rest[: not equals]
            continue
        if not word.startswith("-"):
            words.append(word)
            continue
        one = _one_name(name)
        odt = name.replace("_", "-") if one is None else NAMES.get(one, one)
        found |= one is not None
        if odt in flags:
            words.append(odt + equals + value)
            continue
        attached = not word.startswith("--") and len(word) > 2  # -v1
        values = [value] if equals else [rest.pop(0)] if rest and not attached else []
        if one == OUTPUT_SIZES or (odt == "--metric" and values == ["-1"]):
            continue  # onert_train makes no use of the sizes; −1 is no metric
        if odt is None:
            models += values
            continue
        if one == EACH_STEP:
            words += ["--export-checkpoint-every", "step"]
            odt = "--export-checkpoint"
        words += [odt, *values]
    return [*models, *words], found


def _one_name(name: str) -> str | None:
    if name == EACH_STEP:
        return name
    spelled = f"--{name[2:].replace('-', '_')}" if name.startswith("--") else name
    return spelled if spelled in NAMES or spelled == OUTPUT_SIZES else None


def check_output_sizes(args: Sequence[str]) -> None:
    """The sizes must be a list [output, size, …], as onert_train wants it.

    Raises:
        click.BadParameter: if they are none.
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
    """What onert_train looks at before it begins."""
    for name in MUST_EXIST:
        path = ctx.params.get(name)
        if path is not None and not os.path.exists(path):
            raise click.BadParameter(f"Cannot find: {path}", ctx, param_hint=name)
    share = ctx.params.get("validation_split", 0.0)
    if not 0 <= share <= 1:
        raise click.BadParameter(
            f"must be 0 … 1, but got {share:g}.", ctx, param_hint="validation_split"
        )


def _as_one(error: click.UsageError) -> click.UsageError:
    """onert_train's own checks end with 1; its parser and the runtime with 255."""
    parameter = getattr(error, "param", None)
    late = parameter is not None and parameter.name in FOUND_LATE
    own = isinstance(error, click.BadParameter) and not late
    return (BadArgument if own else BadLine)(error.format_message(), error.ctx)
