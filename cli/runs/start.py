"""Begins a run: locks and checks its folder, and makes the callbacks that write its files."""

import os
from importlib import import_module
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

import odt
from odt.cli.options.recipe_file import Recipe, outputs_of, recipe_of, recipe_text
from odt.cli.options.run_dir import CONTINUED, FILE, LAST
from odt.cli.options.sections import RECIPE
from odt.cli.options.train_options import TrainOptions
from odt.cli.output.output_locks import hold
from odt.core.storage.reading import unwritable
from odt.errors import OdtError
from odt.runs.recipe import parse_recipe

if TYPE_CHECKING:
    from odt.cli.runs.folder import RowLog

# Keys of files that training reads.
FILES = (
    "load-input",
    "load-expected",
    "sample-weight",
    "validation-input",
    "validation-expected",
    "teacher",
    "teacher-outputs",
    "adapters",
)


def in_run_dir(options: TrainOptions) -> TrainOptions:
    """Locks the files that training writes; returns the options with those that --run-dir sets.

    Raises:
        OdtError: if the folder cannot be used for this run.
    """
    path = options.run.run_dir
    ctx = click.get_current_context()
    hold(outputs_of(ctx))
    if path or options.run.log:
        # A budget counts its memory before training. `platform` runs a program to describe itself.
        for name in ("odt.cli.runs.folder", "subprocess"):
            import_module(name)
    if path is None:
        if options.run.tensorboard:
            raise OdtError("--tensorboard: must be given with --run-dir, but got it without")
        return options
    if options.fit.save_to:
        raise OdtError(
            f"--export-checkpoint: must be given without --run-dir, whose checkpoint is {LAST}, "
            "but got both. Leave it out."
        )
    if os.path.isdir(path):
        hold({"--run-dir": path})
    names_model = ctx.get_parameter_source("model") is ParameterSource.COMMANDLINE
    if ctx.meta.get(CONTINUED) and (names_model or ctx.meta[RECIPE] != os.path.join(path, FILE)):
        raise OdtError(
            f"--run-dir {path}: must be a new folder, but it has a run. Resume that run with odt "
            f"train --run-dir {path}, or give another folder."
        )
    _check_new(path)
    return options.saving_to(os.path.join(path, LAST))


def _check_new(path: str) -> None:
    """Raises OdtError if the folder of a new run holds other files."""
    try:
        names = os.listdir(path) if os.path.lexists(path) else []
    except OSError as e:
        raise OdtError(f"--run-dir {path}: must be a folder, but got: {e.strerror}.") from e
    visible = sorted(name for name in names if not name.startswith("."))
    if visible and not click.get_current_context().meta.get(CONTINUED):
        raise OdtError(
            f"--run-dir {path}: must be a new or empty folder, but it has {visible[0]}. "
            "Give another folder."
        )


def _claim(path: str) -> None:
    """Makes the folder of a run, if it is not there, and locks it.

    Raises:
        OdtError: if it cannot be made, or belongs to another run.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as e:
        raise OdtError(unwritable(f"--run-dir {path}", e, "folder")) from e
    hold({"--run-dir": path})
    _check_new(path)  # again: another run may have begun and ended in it


def run_logs(trainer: odt.Trainer, options: TrainOptions) -> "list[RowLog]":
    """Makes the folder of a run; returns the callbacks that write its files, and the log."""
    path = options.run.run_dir
    log = options.run.log
    if not path and not log:
        return []
    # Imported here, because most training has no run and no log.
    from pathlib import Path

    from odt.cli.runs import folder

    logs = [folder.RowLog(Path(log))] if log else []
    if path:
        recipe = _recipe()
        files = {"model": Path(trainer.model.path).absolute()}
        files |= {key: Path(str(recipe[key])) for key in FILES if key in recipe}
        text = recipe_text(recipe, trainer)
        _claim(path)
        run = folder.RunFolder(
            Path(path),
            recipe=text,
            monitor=options.session.monitor,
            files=files,
            outputs=outputs_of(click.get_current_context()),
            tensorboard=options.run.tensorboard,
        )
        logs.append(run)
    return logs


def _recipe() -> Recipe:
    """Returns the recipe of a run; a resumed run keeps the checkpoint with which it began."""
    ctx = click.get_current_context()
    recipe = recipe_of(ctx)
    if ctx.meta.get(CONTINUED):
        before = parse_recipe(ctx.meta[RECIPE])
        recipe.pop("checkpoint", None)
        if "checkpoint" in before:
            recipe["checkpoint"] = before["checkpoint"]
    return recipe
