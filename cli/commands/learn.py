"""Make a model from a folder of photos or sounds, or from a table."""

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from odt.collector import quick_imports
from odt.core.storage.reading import unwritable
from odt.errors import OdtError
from odt.text import quantity

if TYPE_CHECKING:
    from odt.cli.learning.recipe import Options, Recipe

PATTERN = "label-pattern"  # option of gen-datafile that finds the classes of a flat folder
COLUMNS = ("one-hot", "date", "leave-out")  # options of gen-datafile that users may extend


@click.command()
@click.argument("source", required=False, metavar="SOURCE")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    required=True,
    metavar="FOLDER",
    help="New folder for the model, its int8 form, the report, the recipe and the data files.",
)
@click.option(
    "--target",
    metavar="COLUMN",
    help="Column of a table that the model predicts, by name or number.  [default: the last one]",
)
@click.option(
    "--base",
    metavar="MODEL",
    help="Trained network that gets a new last layer: mobilenet or keywords of the package "
    "odt-models, or a model file.  [default: mobilenet for photos, keywords for sounds]",
)
@click.option("--epochs", type=click.IntRange(1), help="Number of epochs at most.")
@click.option(
    "--seed", type=click.IntRange(0), help="Random seed of splits, new weights and training."
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="COMMAND.OPTION=VALUE",
    help="Set an option of a command of the recipe, such as train.batch-size=16 or "
    "gen-datafile.size=96x96. Repeatable.",
)
@click.option(
    "--config",
    type=click.Path(),
    metavar="FILE",
    help="Run the recipe of an earlier run, on its data or on SOURCE.",
)
def command(
    source: str | None,
    output: str,
    target: str | None,
    base: str | None,
    epochs: int | None,
    seed: int | None,
    changes: tuple[str, ...],
    config: str | None,
) -> None:
    """Make a model from a folder with one folder of photos or sounds per class, or from a table.

    Chooses the preparation, network and training, trains with early stopping, and tests the float
    and the int8 model on samples that were held back. FOLDER/recipe.toml holds all choices; they
    are options of the commands that are printed.
    """
    # Imported here, because help does not need the engine.
    with quick_imports():
        from odt.cli.learning import run as learning
        from odt.cli.learning.choices import choose
        from odt.cli.learning.recipe import DATA, HEAD, read_recipe

    def show(line: str) -> None:
        click.echo(line, err=True)

    if config is not None and (target is not None or base is not None):
        raise OdtError("--config: must be given without --target and --base, which it holds.")
    folder = Path(output)
    is_new = not os.path.exists(folder)  # no error if its folder cannot be searched
    if not is_new and (not folder.is_dir() or any(folder.iterdir())):
        raise OdtError(f"--output: must be a new or an empty folder, but got {output}.")
    options = _parsed(changes)
    if config is not None:
        recipe = read_recipe(config)
        if source is not None:
            recipe = recipe.with_source(source)
    elif source is not None:
        data = options.get(DATA, {})
        columns = {name: data.pop(name) for name in COLUMNS if name in data}
        pattern = data.get(PATTERN, "")
        with learning.errors_of(DATA):
            recipe = choose(source, target, base, seed or 0, columns, show, pattern)
    else:
        raise click.UsageError("Missing argument 'SOURCE'.")
    recipe = recipe.with_options(_with_short_options(options, recipe, seed, epochs))
    if HEAD in recipe.steps and folder.resolve().is_relative_to(Path(recipe.source).resolve()):
        raise OdtError(
            f"--output: must be outside of {recipe.source}, whose folders are classes, but got "
            f"{output}."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / learning.RECIPE).write_text(recipe.text(os.fspath(folder)), encoding="utf-8")
    except OSError as e:
        raise OdtError(unwritable(f"--output {output}", e, "folder")) from e
    try:
        results = learning.run(recipe, folder, show)
    except BaseException:
        if (folder / learning.FLOAT).exists():  # it may have taken hours
            click.echo(f"{output} keeps the trained model; later commands did not run.", err=True)
        else:
            _remove(folder, is_new)
        raise
    for result in results:
        values = ", ".join(f"{name} {value:.4f}" for name, value in result.metrics.items())
        click.echo(
            f"{result.path}: {result.nbytes / 1000:,.0f} kB, {values} on "
            f"{quantity(result.samples, 'sample')}"
        )
    click.echo(f"{folder / learning.REPORT}: curves, mistakes and confusions")
    click.echo(f"Use it: odt predict {shlex.quote(str(folder / learning.FLOAT))} --source NEW")


def _remove(folder: Path, is_new: bool) -> None:
    """Removes the files of a folder, and the folder if it is new."""
    if is_new:
        shutil.rmtree(folder)
        return
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _parsed(texts: Sequence[str]) -> "dict[str, Options]":
    """Returns the values of --set: command → its options."""
    from odt.cli.learning.recipe import parse_change

    changes: dict[str, Options] = {}
    for text in texts:
        command, option, value = parse_change(text)
        changes.setdefault(command, {})[option] = value
    return changes


def _with_short_options(
    changes: "Mapping[str, Options]", recipe: "Recipe", seed: int | None, epochs: int | None
) -> "dict[str, Options]":
    """Returns the changes of --set with those of --seed and --epochs, which --set overrides.

    Args:
        changes: command → its options that change.
        recipe: the recipe, whose commands get the seed.
        seed: random seed; None for those of the recipe.
        epochs: number of epochs; None for that of the recipe.
    """
    from odt.cli.learning.recipe import SEEDED, TRAIN

    short: dict[str, Options] = {}
    if seed is not None:
        short = {command: {"seed": seed} for command in SEEDED if command in recipe.steps}
    if epochs is not None:
        short.setdefault(TRAIN, {})["epochs"] = epochs
    commands = dict.fromkeys((*short, *changes))  # in a fixed order, for errors
    return {name: short.get(name, {}) | changes.get(name, {}) for name in commands}
