"""The model of a run: the trained one or, until that is written, that of the best epoch."""

import tempfile
from pathlib import Path
from typing import Any

from odt.core.storage.reading import reading
from odt.errors import OdtError
from odt.evaluation.evaluation import task_of
from odt.models.model import Model, load_model
from odt.runs.run import BEST, RECIPE, Run
from odt.training.artifact_recipe import KEYS
from odt.training.trainer import Trainer

FILES = ("load-input", "load-expected")
# Options with which a model is read, also the trained one: its file leaves the same open.
READ = ("signature", "input-shape", "input-value", "sequence-length", "return-sequences", "anchors")
# Options whose checkpoints do not belong to the model in the recipe.
LATE = ("adapters", "quantize-aware", "quantize-weights")


def model_of(run: Run) -> str:
    """Returns the path of the trained model; empty if there is none."""
    paths = [run.path / f"model.{kind}" for kind in ("tflite", "circle", "onnx")]
    return next((str(path) for path in paths if path.exists()), "")


def late_option(run: Run) -> str:
    """Returns the option for which a run has no model before its end; empty for none."""
    return next((key for key in LATE if run.recipe.get(key)), "")


def read_model(run: Run, trained: str) -> Model:
    """Returns the trained model, or that of the best epoch, which the run must have.

    Args:
        run: the run.
        trained: path of the trained model; empty for that of the best epoch.

    Raises:
        OdtError: if a file cannot be read, or the recipe has an invalid value.
    """
    options = options_of(run, *READ)
    if trained:
        return load_model(trained, **options)
    # Windows cannot remove the file, which the model maps.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        model = load_model(str(run.recipe.get("model", "")), **options)
        with Trainer(model, checkpoint=run.path / BEST, task=task_of_run(run)) as trainer:
            path = Path(folder) / f"model.{model.format}"
            trainer.export(path)
        return load_model(path, **options)


def task_of_run(run: Run, new_data: tuple[Any, Any] | None = None) -> str | None:
    """Returns the task of the training data, or of new inputs and targets."""
    return (new_data and task_of(*new_data)) or task_of(*map(run.recipe.get, FILES))


def options_of(run: Run, *keys: str) -> dict[str, Any]:
    """Returns options of a recipe as arguments of `load_model` or `Trainer`.

    Args:
        run: the run.
        keys: keys of the recipe; those that it lacks are left out.

    Raises:
        OdtError: if a value is invalid.
    """
    options = {}
    with reading(str(run.path / RECIPE), "must be the recipe of a run", OdtError):
        for key in keys:
            if key in run.recipe:
                name, parse = KEYS.get(key, (key.replace("-", "_"), _unchanged))
                options[name] = parse(run.recipe[key])
    return options


def _unchanged(value: Any) -> Any:
    return value
