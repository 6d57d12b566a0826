"""Options of a run's folder and logs: --run-dir, --tensorboard, --log."""

import os

import click

from odt.cli.options.recipe_file import read_recipe, recipe_options
from odt.cli.options.rows import declare, declared_options
from odt.cli.options.sections import RECIPE, RUNS, combine
from odt.cli.options.types import OutputPath
from odt.dataclass import dataclass

CONTINUED = f"{__name__}.continued"  # in a context: whether --run-dir names a run
FILE, LAST = "recipe.toml", "last.odt"


def continue_run(ctx: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    """Makes the recipe and the last checkpoint of a run the defaults of the options."""
    recipe = os.path.join(path or "", FILE)
    if path is None or not os.path.exists(recipe):
        return path
    ctx.meta[CONTINUED] = True
    if RECIPE not in ctx.meta:
        ctx.meta[RECIPE] = recipe
        ctx.default_map = read_recipe(recipe, ctx.command)
        last = os.path.join(path, LAST)
        if os.path.exists(last):
            ctx.default_map["checkpoint"] = last
    return path


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Folder and logs of a run."""

    run_dir: str | None = declare(
        RUNS,
        "--run-dir",
        common=True,
        type=click.Path(),
        metavar="DIR",
        is_eager=True,
        callback=continue_run,
        help="Write a run to the folder DIR: recipe, versions, hashes, log, curves, best and last "
        "checkpoint, trained model. Without MODEL, resume the run in DIR.",
    )
    tensorboard: bool = declare(
        RUNS,
        "--tensorboard",
        is_flag=True,
        help="Also write a TensorBoard event file to --run-dir.",
    )
    log: str | None = declare(
        RUNS,
        "--log",
        type=OutputPath(),
        metavar="FILE",
        help="Write loss, metrics, time and learning rate of each epoch as .csv or .jsonl.",
    )


run_options = combine(recipe_options, declared_options(RunOptions))
