"""Values of options and arguments that the shell completes with Tab."""

import os
from collections.abc import Callable, Collection
from typing import Any, TypeAlias

import click

Items: TypeAlias = list[Any]  # of click.shell_completion.CompletionItem, which Tab alone needs
Complete = Callable[[click.Context, click.Parameter, str], Items]
MODELS = (".tflite", ".circle", ".onnx")
RUN = "log.csv"  # file that marks the folder of a run


def items(
    words: Collection[str], ctx: click.Context, param: click.Parameter, incomplete: str
) -> Items:
    """Returns the words that begin with what the user has typed.

    Args:
        words: possible words.
        ctx: context of the command.
        param: the option or argument.
        incomplete: what the user has typed.
    """
    fitting = [word for word in words if word.startswith(incomplete)]
    completed = click.Choice(fitting).shell_complete(ctx, param, "")
    for item, word in zip(completed, fitting, strict=True):
        item.value = word  # Choice spells it with dashes
    return completed


def list_items(
    words: Collection[str], ctx: click.Context, param: click.Parameter, incomplete: str
) -> Items:
    """Returns the lists that the user has typed, with words that begin with the last item."""
    head, comma, _ = incomplete.rpartition(",")
    return items([head + comma + word for word in words], ctx, param, incomplete)


def complete_lists(words: Collection[str]) -> Complete:
    """Returns the completion of a parameter whose value is some words separated by commas."""
    return lambda ctx, param, incomplete: list_items(words, ctx, param, incomplete)


def complete_words(words: Callable[[], Collection[str]]) -> Complete:
    """Returns the completion of a parameter whose values are some words."""
    return lambda ctx, param, incomplete: items(words(), ctx, param, incomplete)


def complete_models(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Completes the name of a model file; other files and folders if there is none."""
    models = _paths(incomplete, lambda path: path.lower().endswith(MODELS))
    fitting = items(models, ctx, param, incomplete)
    return fitting or click.Path().shell_complete(ctx, param, incomplete)


def complete_runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Completes the name of the folder of a run; other folders if there is none."""
    runs = items(_paths(incomplete, _is_run), ctx, param, incomplete)
    return runs or click.Path(file_okay=False).shell_complete(ctx, param, incomplete)


def _is_run(path: str) -> bool:
    return os.path.exists(os.path.join(path, RUN))


def _paths(incomplete: str, fits: Callable[[str], bool]) -> list[str]:
    """Returns the paths beside an incomplete one for which `fits` is true."""
    folder = os.path.dirname(incomplete)
    try:
        names = sorted(os.listdir(folder or os.curdir))
    except OSError:
        return []
    return [path for path in (os.path.join(folder, name) for name in names) if fits(path)]
