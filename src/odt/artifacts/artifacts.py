"""Artifacts: one folder with all that a device needs to train, validated before it is written."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from odt import __version__
from odt.arguments import checked_arguments
from odt.core.checkpoints import checkpoint as own_format
from odt.core.checkpoints.checkpoint import BEST, Checkpoint
from odt.core.export.exporter import export_model
from odt.core.formats.flatbuffer.training_info_buffer import encode_training_info
from odt.core.model.record import Record
from odt.core.model.training_info import TrainingInfo
from odt.core.recipe.option_values import check_whole, words_of
from odt.core.recipe.resolve import values_used
from odt.core.storage.atomic_files import write_atomically
from odt.core.storage.atomic_folders import AtomicFolder, entries
from odt.core.storage.free_memory import USUAL_PROCESS, in_process_of
from odt.core.storage.reading import listed
from odt.core.training.random_data import FLOATS
from odt.data.sources import recorded
from odt.dataclass import dataclass
from odt.errors import DataError, OdtError, OptionError, TrainingError
from odt.kernels.loss_text import is_plugin
from odt.kernels.rows.scheduledef import Schedule
from odt.models.model import Model, Path
from odt.text import Printed, size, table
from odt.training.artifact_files import (
    ADAPTERS,
    CHECKPOINT,
    MANIFEST,
    MAX_LOSSES,
    NAMES,
    RECIPE,
    ExpectedLosses,
    Manifest,
    is_file_name,
    read_manifest,
    sha256,
)
from odt.training.artifact_recipe import interface_options, recipe_text
from odt.training.callbacks import LambdaCallback
from odt.training.first_steps import first_losses, trainer_from_folder, trainer_of_first_steps
from odt.training.fitting import NEW_RUN
from odt.training.session import Session
from odt.training.trainable import Trainable
from odt.training.trainer import Trainer

STEPS = 3  # of the validation, by default


@dataclass(frozen=True, slots=True)
class Artifacts(Printed):
    """A folder of artifacts, whose files are those that were validated; printed as a list.

    Attributes:
        folder: path of the folder.
        sizes: name of each file → its bytes.
        losses: losses of the first steps on synthetic data, which the device repeats.
        data_losses: losses of the first steps on the samples; empty if there were none.
        version: version of odt that wrote the folder.
    """

    folder: str
    sizes: Mapping[str, int]
    losses: tuple[float, ...]
    data_losses: tuple[float, ...]
    version: str

    @classmethod
    @checked_arguments
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

    def __str__(self) -> str:
        rows = [(f"  {name}", size(nbytes)) for name, nbytes in self.sizes.items()]
        lines = [f"{self.folder}: artifacts of odt {self.version}", *table(rows, right=(1,))]
        lines.append(f"  first losses on synthetic data: {_figures(self.losses)}")
        if self.data_losses:
            lines.append(f"  first losses on the samples: {_figures(self.data_losses)}")
        return "\n".join(lines)


@checked_arguments
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

    The folder holds the model (as circle+ if that format can hold the training info; ONNX with its
    external data), a checkpoint, a recipe, and a manifest with SHA-256 and expected losses. Before
    the folder appears, some steps are trained from its files, on synthetic data and on samples if
    they are given. On the device, `Trainer.from_artifacts` reads the folder, or `odt train` its
    recipe. A folder of earlier artifacts is replaced as a whole.

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
        OptionError: if arguments contradict each other, or artifacts cannot store an argument.
        ModelError: if the model cannot be read, or the folder cannot be written.
        UnsupportedError: if the model cannot be trained.
        DataError: if the samples do not fit the model.
        TrainingError: if a loss is not finite.
    """
    chosen = _selection(trainable, words_of("frozen", frozen))
    options |= {"loss": loss, "optimizer": optimizer, "memory_budget": memory_budget}
    with Trainer(model, trainable=chosen, **options) as trainer:
        return write_artifacts(trainer, out, x, y, nominal=nominal, steps=steps, seed=seed)


@in_process_of(USUAL_PROCESS)  # a budget is that of the device, whose process is not this one
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

    Returns:
        The files and the losses; errors as of `generate_artifacts`.
    """
    session = trainer.session
    _check(session, out, steps, seed)
    if x is None and y is not None:
        raise OptionError("x", "must be given with `y=`", "targets alone")
    if x is not None:
        session.build(session.open(x, y).length)
    record = recorded(x)
    start = _start(trainer)
    losses = () if x is None else _losses_on(trainer, x, y, steps)
    rate = session.recipe.info.learning_rate
    if losses and not session.recipe.info.schedule:
        rate = trainer.learning_rate  # `fit` lowers the default for a trained model
    start = replace(start, hyper_parameters={**start.hyper_parameters, "learning_rate": rate})
    if nominal:
        start = own_format.nominal(start)
    with AtomicFolder(out) as folder:
        names = _write_files(trainer, folder.temporary, start, record)
        files = {name: sha256(os.path.join(folder.temporary, name)) for name in names}
        expected = _expected(folder.temporary, files, steps, seed)
        manifest = Manifest(files, expected, __version__, losses)
        write_atomically(os.path.join(folder.temporary, MANIFEST), [manifest.to_bytes()])
        trainer_from_folder(Trainer, folder.temporary).close()  # as the device
    return Artifacts.read(out)


def _expected(folder: str, files: Mapping[str, str], steps: int, seed: int) -> ExpectedLosses:
    """Returns the losses on synthetic data of the first distribution that model and loss accept.

    Raises:
        DataError, TrainingError: the error with the first distribution, if they accept none.
    """
    first_error: OdtError | None = None
    for floats in FLOATS:
        expected = ExpectedLosses(seed, floats, (0.0,) * steps)
        try:
            with trainer_of_first_steps(Trainer, folder, files, {}) as probe:
                return replace(expected, losses=first_losses(probe, expected))
        except (DataError, TrainingError) as e:
            first_error = first_error or e
    assert first_error is not None, "FLOATS has at least one distribution"
    raise first_error


def _check(session: Session, out: Path, steps: int, seed: int) -> None:
    """Raises OptionError for options that artifacts cannot hold."""
    external = {span.location for span in session.recipe.model.external.values()}
    misplaced = sorted(n for n in external if n in NAMES or not is_file_name(n))
    if misplaced:
        raise OptionError(
            "model",
            "must have its external data beside it in artifacts, under other names than theirs",
            listed(misplaced),
            "Write the model again with one data file, model.onnx.data.",
        )
    for field, value, least in (("steps", steps, 1), ("seed", seed, 0)):
        check_whole(field, value, least)
    if steps > MAX_LOSSES:
        raise OptionError("steps", f"must be at most {MAX_LOSSES}", steps)
    if session.teacher is not None:
        raise OptionError("teacher", "must be left out of artifacts", "a teacher")
    if session.has_frozen_int8:
        rule = "must be left out of artifacts, which hold no inputs for its ranges"
        raise OptionError("frozen_int8", rule)
    info = session.recipe.info
    if info.schedule and str(info.schedule).startswith(Schedule.word):
        raise OptionError("schedule", "must be one of odt's in artifacts", info.schedule)
    for name in (info.loss, *(loss for _, loss in info.output_losses)):
        if name and is_plugin(name):
            raise OptionError(
                "loss", "must be one of odt's in artifacts", f"the custom loss {name}"
            )
    names = entries(out)
    others = names - {*NAMES} - external
    if MANIFEST not in names:  # without a manifest, files of these names are no artifacts
        others = others or names
    if others:
        raise OptionError(
            "out",
            "must be a new folder, or one of artifacts alone",
            f"{os.fspath(out)} with {listed(sorted(others))}",
            "Give another folder, or move its files.",
        )


def _start(trainer: Trainer) -> Checkpoint:
    """Returns a copy of the state as the start of a run on the device, on data of its own."""
    session = trainer.session
    session.build()
    state = trainer.checkpoints.saver().state()
    before = session.resume.progress if session.resume.checkpoint else NEW_RUN
    progress = replace(
        state.progress,
        epoch=1,
        position=0,
        samples=0,
        plateau=(),
        best=(),
        monitor="",
        shuffle=before.shuffle,
        drop_last=before.drop_last,
        stratified=before.stratified,
        # The device chooses these.
        micro_batch=0,
        workers=0,
        kernels="",
    )
    entries = []
    arrays = []
    for entry, a in zip(state.entries, state.arrays, strict=True):
        if entry.role != BEST:
            entries.append(entry)
            arrays.append(a.copy())
    return replace(state, progress=progress, entries=tuple(entries), arrays=tuple(arrays))


def _losses_on(trainer: Trainer, x: Any, y: Any, steps: int) -> tuple[float, ...]:
    """Trains some steps on samples; returns their losses."""
    losses: list[float] = []
    record = LambdaCallback(on_train_batch_end=lambda batch, logs: losses.append(logs["loss"]))
    last = trainer.session.build().parameters.step + steps
    resumes = bool(trainer.session.resume.path)
    trainer.fit(x, y, max_steps=last, callbacks=[record], verbose=0, new_data=resumes)
    return tuple(losses)


def _write_files(
    trainer: Trainer, folder: str, start: Checkpoint, record: Record | None
) -> list[str]:
    """Writes all files but the manifest; returns their names."""
    session = trainer.session
    file = session.recipe.model
    names = {"model": f"model.{file.format}", "checkpoint": CHECKPOINT}
    info = _info_of_circle_plus(session) if file.format == "circle" else None
    path = os.path.join(folder, names["model"])
    export_model(file, {}, path, file.format, info, record=record)
    if session.recipe.lowered.adapted is not None:
        names["adapters"] = ADAPTERS
        trainer.model.save_adapters(os.path.join(folder, ADAPTERS))
    write_atomically(os.path.join(folder, CHECKPOINT), own_format.encode(start))
    options = {**session.device_options(), **interface_options(file)}
    text = recipe_text(names, options).encode()
    write_atomically(os.path.join(folder, RECIPE), [text])
    external = {span.location for span in file.external.values()}
    return [*names.values(), RECIPE, *sorted(external)]


def _info_of_circle_plus(session: Session) -> TrainingInfo | None:
    """Returns the training info, or None if a circle+ file cannot hold it.

    The checkpoint of the artifacts holds it in any case.
    """
    recipe = session.recipe
    info = replace(recipe.info, loss=session.build().info.loss)
    info = values_used(recipe.lowered.part.graph, info)
    try:
        encode_training_info(info, len(recipe.model.graph.nodes))
    except OptionError:
        return None
    return info


def _selection(
    trainable: Trainable | str | Sequence[str] | None, frozen: tuple[str, ...]
) -> Trainable | None:
    """Returns the selection of `trainable=` and `frozen=`."""
    if trainable is None or isinstance(trainable, Trainable):
        if not frozen:
            return trainable
        chosen = trainable or Trainable()
        return replace(chosen, freeze=(*words_of("freeze", chosen.freeze), *frozen))
    patterns = words_of("trainable", trainable)
    if not patterns:
        raise OptionError("trainable", "must name a weight", "an empty list")
    return Trainable(patterns=patterns, freeze=frozen)


def _figures(losses: Sequence[float]) -> str:
    return ", ".join(f"{loss:.4g}" for loss in losses)
