"""Artifacts: one folder with all that a device needs to train, validated before it is written."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import odt
from odt.artifacts.files import (
    ADAPTERS,
    CHECKPOINT,
    MANIFEST,
    MOST_LOSSES,
    NAMES,
    RECIPE,
    Expected,
    Manifest,
    model_of,
    read_manifest,
    read_recipe,
    recipe_text,
    sha256,
)
from odt.core.checkpoints import checkpoint as own_format
from odt.core.checkpoints.checkpoint import BEST, Checkpoint
from odt.core.export.exporter import export_model
from odt.core.formats.flatbuffer.training_info_buffer import encode_training_info
from odt.core.model.record import Record
from odt.core.model.training_info import TrainingInfo
from odt.core.recipe.option_values import check_whole
from odt.core.recipe.resolve import values_used
from odt.core.storage.atomic_files import write_atomically
from odt.core.storage.atomic_folders import AtomicFolder, entries
from odt.core.storage.reading import listed
from odt.core.training.random_data import FLOATS, random_data
from odt.data.sources import recorded
from odt.dataclass import dataclass
from odt.errors import DataError, ModelError, OdtError, OptionError, TrainingError
from odt.kernels.loss_text import is_plugin
from odt.kernels.rows.scheduledef import Schedule
from odt.models.model import Model, Path, load_model
from odt.text import size, table
from odt.training.callbacks import LambdaCallback
from odt.training.option_forms import resume_from, words_of
from odt.training.trainable import Trainable
from odt.training.trainer import NEW_RUN, Trainer

STEPS = 3
MOST_SAMPLES = 256  # of a synthetic batch
HERE = ("memory_budget", "micro_batch", "workers")  # options that do not change the losses


@dataclass(frozen=True, slots=True)
class Artifacts:
    """A folder of artifacts, whose files are those that were validated; printed as a list.

    Attributes:
        folder: path of the folder.
        sizes: name of each file → its bytes.
        losses: losses of the first steps on synthetic data, which the device repeats.
        data_losses: losses of the first steps on the samples of the desk; empty if there were none.
        version: version of odt that wrote the folder.
    """

    folder: str
    sizes: Mapping[str, int]
    losses: tuple[float, ...]
    data_losses: tuple[float, ...]
    version: str

    @classmethod
    def read(cls, folder: Path) -> "Artifacts":
        """Reads the manifest of a folder, and checks its files.

        Args:
            folder: the folder.

        Raises:
            ModelError: if a file is missing or changed, or the manifest is damaged or newer.
        """
        where = os.fspath(folder)
        manifest = read_manifest(where)
        names = (*manifest.files, MANIFEST)
        sizes = {name: os.path.getsize(os.path.join(where, name)) for name in names}
        return cls(where, sizes, manifest.expected.losses, manifest.data, manifest.odt)

    @staticmethod
    def trainer(
        kind: "type[Trainer]", folder: Path, checkpoint: Any, check: bool, **options: Any
    ) -> Trainer:
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
            here = {name: value for name, value in options.items() if name in HERE}
            with _probe(where, manifest.files, here) as probe:
                _compare(where, probe, manifest.expected)
                if checkpoint is not None:
                    _check_checkpoint(probe, checkpoint)
        if checkpoint is not None:
            recipe["checkpoint"] = checkpoint
        trainer = _trainer(kind, where, manifest.files, {**recipe, **options})
        if checkpoint is None:
            trainer.resume = trainer.resume.on_new_data()
        return trainer

    def __str__(self) -> str:
        rows = [(f"  {name}", size(nbytes)) for name, nbytes in self.sizes.items()]
        lines = [f"{self.folder}: artifacts of odt {self.version}", *table(rows, right=(1,))]
        lines.append(f"  first losses on synthetic data: {_shown(self.losses)}")
        if self.data_losses:
            lines.append(f"  first losses on the samples: {_shown(self.data_losses)}")
        return "\n".join(lines)


def generate_artifacts(
    model: Model | Path,
    out: Path,
    *,
    x: Any = None,
    y: Any = None,
    loss: Any = None,
    optimizer: Any = None,
    trainable: Trainable | str | Sequence[str] | None = None,
    frozen: str | Sequence[str] = (),
    memory_budget: int | str | None = None,
    nominal: bool = False,
    steps: int = STEPS,
    seed: int = 0,
    **options: Any,
) -> Artifacts:
    """Writes a folder with all that a device needs to train a model.

    The folder holds the model (as circle+ if that format can hold the training info), a checkpoint,
    a recipe, and a manifest with SHA-256 and expected losses. Before the folder appears, some steps
    are trained from its files, on synthetic data and on samples if they are given. On the device,
    `Trainer.from_artifacts` reads it, or `odt train` with its recipe. A folder of earlier artifacts
    is replaced as a whole.

    Args:
        model: a model or the path of its file.
        out: the folder to write.
        x: samples to validate with: inputs, as in `Trainer.fit`. Their preprocessing record is
            stored in the model.
        y: targets, as in `Trainer.fit`.
        loss: as for Trainer.
        optimizer: as for Trainer.
        trainable: what trains, as for Trainer; or patterns of names of weights or operators.
        frozen: patterns of names of weights or operators that do not train.
        memory_budget: as for Trainer; the device obeys it, too.
        nominal: whether the checkpoint holds only names and shapes, for a device that gets its
            weights from a server.
        steps: number of steps of the validation, at most 100.
        seed: random seed of the synthetic data.
        **options: other arguments of Trainer.

    Returns:
        The files and the losses.

    Raises:
        OptionError: if arguments contradict each other, or artifacts cannot hold one.
        ModelError: if the model cannot be read, or the folder cannot be written.
        TrainingError: if a loss is not finite.
    """
    chosen = _selection(trainable, words_of(frozen))
    options |= {"loss": loss, "optimizer": optimizer, "memory_budget": memory_budget}
    with odt.Trainer(model, trainable=chosen, **options) as trainer:
        return write_artifacts(trainer, out, x, y, nominal=nominal, steps=steps, seed=seed)


def write_artifacts(
    trainer: Trainer,
    out: Path,
    x: Any = None,
    y: Any = None,
    *,
    nominal: bool = False,
    steps: int = STEPS,
    seed: int = 0,
) -> Artifacts:
    """Writes the artifacts of a trainer, which trains some steps on the samples if there are some.

    Args:
        trainer: a trainer with the options of the device.
        out: as for `generate_artifacts`.
        x: as for `generate_artifacts`.
        y: as for `generate_artifacts`.
        nominal: as for `generate_artifacts`.
        steps: as for `generate_artifacts`.
        seed: as for `generate_artifacts`.
    """
    _check(trainer, out, steps, seed)
    if x is None and y is not None:
        raise OptionError("x", "must be given with `y=`", "targets alone")
    if x is not None:
        trainer.build(trainer.open(x, y).length)
    start, record = _start(trainer), recorded(x)
    losses = () if x is None else _losses_on(trainer, x, y, steps)
    rate = trainer.recipe.info.learning_rate
    if losses and not trainer.recipe.info.schedule:
        rate = trainer.learning_rate  # `fit` lowers the default for a trained model
    start = replace(start, hyper_parameters={**start.hyper_parameters, "learning_rate": rate})
    if nominal:
        start = own_format.nominal(start)
    with AtomicFolder(out) as folder:
        names = _write_files(trainer, folder.temporary, start, record)
        files = {name: sha256(os.path.join(folder.temporary, name)) for name in names}
        expected = _expected(folder.temporary, files, steps, seed)
        manifest = Manifest(files, expected, odt.__version__, losses)
        write_atomically(os.path.join(folder.temporary, MANIFEST), [manifest.to_bytes()])
        Artifacts.trainer(odt.Trainer, folder.temporary, None, True).close()  # as the device
    return Artifacts.read(out)


def _trainer(
    kind: "type[Trainer]", folder: str, files: Mapping[str, str], options: Mapping[str, Any]
) -> Trainer:
    adapters = os.path.join(folder, ADAPTERS) if ADAPTERS in files else None
    model = load_model(os.path.join(folder, model_of(files)), adapters)
    return kind(model, **{"checkpoint": os.path.join(folder, CHECKPOINT), **options})


def _probe(folder: str, files: Mapping[str, str], options: Mapping[str, Any]) -> Trainer:
    """Makes a trainer for the first steps: without metrics and caches, which need the data."""
    recipe = read_recipe(folder)
    for name in ("metrics", "cache_frozen", "cache_dtype"):
        recipe.pop(name, None)
    return _trainer(odt.Trainer, folder, files, {**recipe, **options})


def _first_losses(trainer: Trainer, expected: Expected) -> tuple[float, ...]:
    """Trains on the same synthetic batch as often as there are losses; returns the losses."""
    engine = trainer.allocate()  # with the model's weights if the checkpoint is nominal
    data = replace(random_data(engine.runtime, expected.seed), floats=expected.floats)
    engine.start_schedule(len(expected.losses))
    samples = min(engine.info.batch_size, MOST_SAMPLES)
    return tuple(engine.step(data, samples) for _ in expected.losses)


def _expected(folder: str, files: Mapping[str, str], steps: int, seed: int) -> Expected:
    """Returns the losses on synthetic data that the model and its loss accept."""
    refused: OdtError | None = None
    for floats in FLOATS:
        wanted = Expected(seed, floats, (0.0,) * steps)
        try:
            with _probe(folder, files, {}) as probe:
                return replace(wanted, losses=_first_losses(probe, wanted))
        except (DataError, TrainingError) as e:
            refused = refused or e
    assert refused is not None
    raise refused


def _compare(folder: str, trainer: Trainer, expected: Expected) -> None:
    """Raises ModelError unless the first losses are those of the desk."""
    try:
        difference = expected.difference(_first_losses(trainer, expected))
    except (DataError, TrainingError) as e:
        difference = str(e)
    if difference:
        raise ModelError(
            f"{os.path.join(folder, MANIFEST)}: the first losses must be those of the desk but for "
            f"rounding, but got {difference}. Generate the artifacts again, with the device's "
            "version of odt."
        )


def _check_checkpoint(trainer: Trainer, given: Any) -> None:
    """Raises ModelError if a checkpoint of the device belongs to another model."""
    resume = resume_from(given)
    if resume.own is not None:
        engine = trainer.allocate()
        own_format.matching(resume.own, resume.path, engine.graph, engine.parameters)


def _check(trainer: Trainer, out: Path, steps: int, seed: int) -> None:
    """Raises OptionError for options that artifacts cannot hold."""
    trainer.recipe.model.check_flatbuffer("generate_artifacts")
    for field, value, least in (("steps", steps, 1), ("seed", seed, 0)):
        check_whole(field, value, least)
    if steps > MOST_LOSSES:
        raise OptionError("steps", f"must be at most {MOST_LOSSES}", steps)
    if trainer.teacher is not None:
        raise OptionError("teacher", "must be left out of artifacts", "a teacher")
    info = trainer.recipe.info
    if info.schedule and str(info.schedule).startswith(Schedule.word):
        raise OptionError("schedule", "must be one of odt's in artifacts", info.schedule)
    for name in (info.loss, *(loss for _, loss in info.output_losses)):
        if name and is_plugin(name):
            raise OptionError(
                "loss", "must be one of odt's in artifacts", f"the custom loss {name}"
            )
    names = entries(out)
    if others := sorted(names - {*NAMES}) or sorted(names if MANIFEST not in names else ()):
        raise OptionError(
            "out",
            "must be a new folder, or one of artifacts alone",
            f"{os.fspath(out)} with {listed(others)}",
            "Give another folder, or move its files.",
        )


def _start(trainer: Trainer) -> Checkpoint:
    """Returns a copy of the state as the start of a run on the device, on data of its own."""
    trainer.build()
    own = trainer.saver().state()
    before = trainer.resume.progress if trainer.resume.own else NEW_RUN
    progress = replace(
        own.progress,
        epoch=1,
        position=0,
        samples=0,
        plateau=(),
        best=(),
        monitor="",
        shuffle=before.shuffle,
        drop_last=before.drop_last,
        stratified=before.stratified,
        micro_batch=0,  # these three are the device's to choose
        workers=0,
        kernels="",
    )
    pairs = [(e, a) for e, a in zip(own.entries, own.arrays, strict=True) if e.role != BEST]
    return replace(
        own,
        progress=progress,
        entries=tuple(e for e, _ in pairs),
        arrays=tuple(a.copy() for _, a in pairs),
    )


def _losses_on(trainer: Trainer, x: Any, y: Any, steps: int) -> tuple[float, ...]:
    """Trains some steps on samples; returns their losses."""
    losses: list[float] = []
    see = LambdaCallback(on_train_batch_end=lambda batch, logs: losses.append(logs["loss"]))
    last = trainer.build().parameters.step + steps
    trainer.fit(x, y, max_steps=last, callbacks=[see], new_data=True)
    return tuple(losses)


def _write_files(
    trainer: Trainer, folder: str, start: Checkpoint, record: Record | None
) -> list[str]:
    """Writes all files but the manifest; returns their names."""
    file = trainer.recipe.model
    names = {"model": f"model.{file.format}", "checkpoint": CHECKPOINT}
    info = _storable(trainer) if file.format == "circle" else None
    path = os.path.join(folder, names["model"])
    export_model(file, {}, path, file.format, info, record=record)
    if trainer.recipe.lowered.adapted is not None:
        names["adapters"] = ADAPTERS
        trainer.model.save_adapters(os.path.join(folder, ADAPTERS))
    write_atomically(os.path.join(folder, CHECKPOINT), own_format.encode(start))
    text = recipe_text(names, trainer.device_options()).encode()
    write_atomically(os.path.join(folder, RECIPE), [text])
    return [*names.values(), RECIPE]


def _storable(trainer: Trainer) -> TrainingInfo | None:
    """Returns the training info if a circle+ can hold it; the checkpoint always does."""
    graph, part = trainer.recipe.model.graph, trainer.recipe.lowered.part.graph
    used = values_used(part, replace(trainer.recipe.info, loss=trainer.build().info.loss))
    try:
        encode_training_info(used, len(graph.nodes))
    except OptionError:
        return None
    return used


def _selection(
    trainable: Trainable | str | Sequence[str] | None, frozen: tuple[str, ...]
) -> Trainable | None:
    """Returns the selection of `trainable=` and `frozen=`."""
    if trainable is None or isinstance(trainable, Trainable):
        if not frozen:
            return trainable
        chosen = trainable or Trainable()
        return replace(chosen, freeze=(*words_of(chosen.freeze), *frozen))
    patterns = words_of(trainable)
    if not patterns:
        raise OptionError("trainable", "must name a weight", "an empty list")
    return Trainable(patterns=patterns, freeze=frozen)


def _shown(losses: Sequence[float]) -> str:
    return ", ".join(f"{loss:.4g}" for loss in losses)
