"""A trainer from an artifacts folder, whose first losses are those of the workstation."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from odt.core.checkpoints.checkpoint import matching
from odt.core.training.random_data import random_data
from odt.errors import DataError, ModelError, TrainingError
from odt.models.model import Path, load_model
from odt.training.artifact_files import (
    ADAPTERS,
    CHECKPOINT,
    MANIFEST,
    ExpectedLosses,
    model_of,
    read_manifest,
)
from odt.training.artifact_recipe import INPUT_OPTIONS, read_recipe
from odt.training.checkpoint_state import CheckpointState, resume_from

if TYPE_CHECKING:
    from odt.training.trainer import Trainer

MAX_SAMPLES = 256  # of a synthetic batch
DEVICE_OPTIONS = ("memory_budget", "micro_batch", "workers")  # which do not change the losses


def trainer_from_folder(
    kind: "type[Trainer]",
    folder: Path,
    checkpoint: Path | CheckpointState | None = None,
    check: bool = True,
    **options: Any,
) -> "Trainer":
    """Makes a trainer from a folder; arguments are those of `Trainer.from_artifacts`.

    Args:
        kind: class of the trainer.
        folder: the folder.
        checkpoint: a checkpoint of the device; None for the folder's.
        check: whether to compare the first losses.
        **options: arguments of the trainer.
    """
    where = os.fspath(folder)
    manifest = read_manifest(where)
    recipe = read_recipe(where)
    if check:
        device = {name: value for name, value in options.items() if name in DEVICE_OPTIONS}
        with trainer_of_first_steps(kind, where, manifest.files, device) as probe:
            _compare(where, probe, manifest.expected)
            if checkpoint is not None:
                _check_checkpoint(probe, checkpoint)
    if checkpoint is not None:
        recipe["checkpoint"] = checkpoint
    trainer = _trainer(kind, where, manifest.files, {**recipe, **options})
    if checkpoint is None:
        trainer.session.resume = trainer.session.resume.on_new_data()
    return trainer


def trainer_of_first_steps(
    kind: "type[Trainer]", folder: str, files: Mapping[str, str], options: Mapping[str, Any]
) -> "Trainer":
    """Makes a trainer for the first steps: without metrics and caches, which need the data.

    Args:
        kind: class of the trainer.
        folder: the folder.
        files: name of each file → its SHA-256.
        options: arguments of the trainer, which override the recipe.
    """
    recipe = read_recipe(folder)
    for name in ("metrics", "cache_frozen", "cache_dtype"):
        recipe.pop(name, None)
    return _trainer(kind, folder, files, {**recipe, **options})


def first_losses(trainer: "Trainer", expected: ExpectedLosses) -> tuple[float, ...]:
    """Trains on the same synthetic batch as often as there are losses; returns the losses.

    Args:
        trainer: a trainer that `trainer_of_first_steps` made.
        expected: seed and distribution of the batch, and as many losses as steps.
    """
    engine = trainer.session.allocate()  # with the model's weights if the checkpoint is nominal
    data = replace(random_data(engine.runtime, expected.seed), floats=expected.floats)
    engine.start_schedule(len(expected.losses))
    samples = min(engine.info.batch_size, MAX_SAMPLES)
    return tuple(engine.step(data, samples) for _ in expected.losses)


def _trainer(
    kind: "type[Trainer]", folder: str, files: Mapping[str, str], options: Mapping[str, Any]
) -> "Trainer":
    adapters = os.path.join(folder, ADAPTERS) if ADAPTERS in files else None
    input_options = {name: options[name] for name in INPUT_OPTIONS if name in options}
    others = {name: value for name, value in options.items() if name not in INPUT_OPTIONS}
    model = load_model(os.path.join(folder, model_of(files)), adapters, **input_options)
    return kind(model, **{"checkpoint": os.path.join(folder, CHECKPOINT), **others})


def _compare(folder: str, trainer: "Trainer", expected: ExpectedLosses) -> None:
    """Raises ModelError unless the first losses are those of the workstation."""
    try:
        difference = expected.difference(first_losses(trainer, expected))
    except (DataError, TrainingError) as e:
        difference = str(e)
    if difference:
        raise ModelError(
            f"{os.path.join(folder, MANIFEST)}: the first losses must be those of the workstation "
            f"but for rounding, but got {difference}. Generate the artifacts again, with the "
            "device's version of odt."
        )


def _check_checkpoint(trainer: "Trainer", checkpoint: Any) -> None:
    """Raises ModelError if a checkpoint of the device belongs to another model."""
    resume = resume_from(checkpoint)
    if resume.checkpoint is not None:
        engine = trainer.session.allocate()
        matching(resume.checkpoint, resume.path, engine.graph, engine.parameters)
