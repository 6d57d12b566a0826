"""Values of options and arguments that the shell completes with Tab."""

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Complete = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]
MODELS = (".tflite", ".circle", ".onnx")
RUN = "log.csv"  # file by which the folder of a run is known


def items(words: Iterable[str], incomplete: str, other: str = "") -> "list[CompletionItem]":
    """Returns the words that begin as the user has typed.

    Args:
        words: possible words.
        incomplete: what the user has typed.
        other: kind of paths that the shell completes if no word fits: file, dir, or none.
    """
    from click.shell_completion import CompletionItem

    fitting = [CompletionItem(word) for word in words if word.startswith(incomplete)]
    return fitting or ([CompletionItem(incomplete, type=other)] if other else [])


def complete_words(words: Callable[[], Iterable[str]]) -> Complete:
    """Returns the completion of a parameter whose values are some words."""
    return lambda ctx, param, incomplete: items(words(), incomplete)


def complete_models(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Completes the name of a model file; other files and folders if there is none."""
    return items(_paths(incomplete, lambda p: p.lower().endswith(MODELS)), incomplete, "file")


def complete_runs(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Completes the name of the folder of a run; other folders if there is none."""
    return items(_paths(incomplete, _is_run), incomplete, "dir")


def _is_run(path: str) -> bool:
    return os.path.exists(os.path.join(path, RUN))


def _paths(incomplete: str, fits: Callable[[str], bool]) -> list[str]:
    """Returns the paths in the folder of a path that fit."""
    folder = os.path.dirname(incomplete)
    try:
        names = sorted(os.listdir(folder or os.curdir))
    except OSError:
        return []
    return [path for path in (os.path.join(folder, name) for name in names) if fits(path)]
