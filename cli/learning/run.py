"""Runs the commands of a recipe of `odt learn`, in one process."""

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import click
import numpy as np

import odt
from odt.cli.learning.messages import with_learn_options
from odt.cli.learning.recipe import DATA, HEAD, NEW, QUANTIZE, TRAIN, Options, Recipe, words_of
from odt.core.storage.reading import listed
from odt.dataclass import dataclass
from odt.datasets.new_data import load_record
from odt.errors import DataError, OdtError

START, FLOAT, INT8 = "start.tflite", "model.tflite", "model-int8.tflite"
LABELS, REPORT, LOG, RECIPE = "labels.txt", "report.html", "log.txt", "recipe.toml"
RUN, FILES = "run", "data"  # folders


@dataclass(frozen=True, slots=True)
class Result:
    """A trained model, evaluated on samples that were held back.

    Attributes:
        path: path of the model.
        nbytes: size of its file in bytes.
        metrics: values of the metrics by name.
        samples: number of samples.
    """

    path: str
    nbytes: int
    metrics: dict[str, float]
    samples: int


def run(recipe: Recipe, folder: Path, show: Callable[[str], object]) -> list[Result]:
    """Runs the commands; returns the results of the float and the quantized model.

    Args:
        recipe: the commands.
        folder: the new folder in which they write.
        show: called with each command line.

    Raises:
        OdtError: if a command raises it.
        click.ClickException: if an option of the recipe is invalid.
        click.exceptions.Exit: if a command was stopped.
    """
    files = folder / FILES
    paths = _paths(recipe, folder)
    with _stdout_to(folder / LOG):
        for command, options in recipe.steps.items():
            call([*words_of(command, options), *paths[command]], show)
            if command == DATA and HEAD in recipe.steps:
                _check_classes(recipe.source, files)
        report = [str(folder / RUN), "--data", str(files), "--output", str(folder / REPORT)]
        call(["report", *report], show)
    if classes := load_record(str(files / "train.input.bin")).classes:
        text = "".join(f"{name}\n" for name in classes)
        (folder / LABELS).write_text(text, encoding="utf-8")
    names = (FLOAT, INT8) if QUANTIZE in recipe.steps else (FLOAT,)
    return [evaluate(folder / name, files, recipe.steps[TRAIN]) for name in names]


def _check_classes(source: str, files: Path) -> None:
    """Checks that each class has samples to train on after files were left out.

    Raises:
        DataError: if a class has none.
    """
    classes = load_record(str(files / "train.input.bin")).classes
    targets = np.fromfile(files / "train.output.bin", np.float32)
    if not classes or len(targets) % len(classes):
        return  # the user has chosen another form of targets
    counts = targets.reshape(-1, len(classes)).sum(axis=0)
    if (counts == 0).any():
        empty = [classes[k] for k in np.flatnonzero(counts == 0)]
        raise DataError(
            f"{source}: each class must have files that can be read, but the training data have "
            f"none of {listed(empty)}. Replace these files, or leave the classes out."
        )


def _paths(recipe: Recipe, folder: Path) -> dict[str, list[str]]:
    """Returns the files that each command reads and writes, as words of its command line."""
    files = folder / FILES
    start = str(folder / START)
    model = str(folder / FLOAT)
    like = ["--like", start] if HEAD in recipe.steps else []
    return {
        DATA: ["--source", recipe.source, *like, "--out-dir", str(files)],
        HEAD: ["--output", start],
        NEW: ["--like", str(files), "--output", start],
        TRAIN: [
            start,
            "--data",
            str(files),
            "--run-dir",
            str(folder / RUN),
            "--export-tflite",
            model,
        ],
        QUANTIZE: [model, "--data", str(files), "--output", str(folder / INT8)],
    }


def call(words: list[str], show: Callable[[str], object]) -> None:
    """Runs a command line of odt.

    Args:
        words: words of the command line, without odt.
        show: called with the command line.

    Raises:
        OdtError: if the command raises it.
        click.ClickException: if an option is invalid.
        click.exceptions.Exit: if the command was stopped.
    """
    # Imported here, because the main command finds learn, which imports this module.
    from odt.cli.main import main

    show(shlex.join(["odt", *words]))
    with errors_of(words[0]):
        status = main.main(args=words, prog_name="odt", standalone_mode=False)
    if status:
        raise click.exceptions.Exit(int(status))


@contextmanager
def errors_of(name: str) -> Iterator[None]:
    """Names the options of `odt learn` in errors of a command.

    Args:
        name: the command.

    Raises:
        OdtError: in place of an error of the command.
    """
    from odt.cli.main import main  # as in `call`

    try:
        yield
    except (OdtError, click.ClickException) as e:
        if isinstance(e, click.UsageError):
            raise
        command = main.get_command(click.Context(main), name)
        assert command is not None, "recipes have commands of odt alone"
        options = {opt.lstrip("-") for p in command.params for opt in p.opts}
        text = e.message if isinstance(e, click.ClickException) else str(e)
        raise OdtError(with_learn_options(text, name, options)) from e


def evaluate(model: Path, files: Path, train: Options) -> Result:
    """Evaluates a model on the test samples, with the loss and the metrics of its training.

    Args:
        model: path of the model.
        files: folder of the data files.
        train: options of `odt train`.
    """
    data = odt.DataSet(str(files / "test.input.bin"), str(files / "test.output.bin"))
    evaluation = odt.evaluate(
        str(model), data, metrics=train.get("metric", ()), loss=train.get("loss")
    )
    return Result(
        path=os.fspath(model),
        nbytes=model.stat().st_size,
        metrics=dict(evaluation.metrics),
        samples=evaluation.data.length,
    )


@contextmanager
def _stdout_to(path: Path) -> Iterator[None]:
    """Writes standard output to a file; notes, warnings and progress go to standard error."""
    with path.open("w", encoding="utf-8") as log, redirect_stdout(log):
        yield
