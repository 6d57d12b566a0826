"""The stages of `odt train`: check options, make the trainer, open samples, train, export."""

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

import odt
from odt.cli.options.exports import ADAPTERS
from odt.cli.options.onert import spelled_as_one
from odt.cli.options.recipe_file import outputs_of, recipe_of, recipe_text, toml
from odt.cli.options.rows import group, keywords
from odt.cli.options.sample_files import SampleFiles
from odt.cli.options.shared import require
from odt.cli.options.teacher import teacher_of
from odt.cli.options.train_options import TrainOptions
from odt.cli.options.weights import WEIGHTS
from odt.cli.output.output_paths import check_ending, check_outputs
from odt.cli.output.signals import keep_going
from odt.core.data.dataset import DataSet
from odt.core.data.protocol import Scales, scales_of
from odt.core.model.model import FLATBUFFERS, FORMATS, ONNX
from odt.core.options.fit_options import FitOptions
from odt.core.options.model_options import ModelOptions
from odt.core.options.schedule_options import DIVISION_OPTIONS
from odt.core.options.session_options import SESSION_OPTIONS
from odt.core.options.training_options import RECIPE_OPTIONS, TEACHER_OPTIONS
from odt.core.recipe.fresh_head import fresh_head
from odt.core.storage.atomic_files import AtomicFile
from odt.data.sources import recorded, same_file
from odt.dataclass import dataclass
from odt.errors import LostFileError, OdtError, warn
from odt.kernels.rows.row_index import HYPER_PARAMETERS
from odt.models.model import file_of, lowered_of
from odt.training.exports import check_adapters_path, check_export, keeps_adapters
from odt.training.session import COUNTED

# Options that are arguments of odt.Trainer.
TRAINER = {*RECIPE_OPTIONS, *SESSION_OPTIONS, *DIVISION_OPTIONS} - TEACHER_OPTIONS.keys()
INPUTS = "the file with the inputs of all samples"
TARGETS = "the file with the expected outputs"


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Opened samples, and how `fit` trains on them.

    Attributes:
        samples: samples for training, and for validation unless these are separate.
        validation: separate validation samples; None for none.
        fit: options of `fit`.
    """

    samples: DataSet
    validation: DataSet | None
    fit: FitOptions


def load_training() -> None:
    """Imports what `odt train` imports when it runs, whose memory a forecast counts."""
    # The first one is for shuffling.
    for name in ("numpy.random", "odt.cli.output.training_log", *COUNTED):
        importlib.import_module(name)


def refuse_alone(option: str, value: object, other: str, companion: object) -> None:
    """Raises OdtError if an option is given without the one that it needs."""
    if value and not companion:
        raise OdtError(f"{option}: must come with {other}, but got it alone")


def keep_outputs(options: TrainOptions) -> None:
    """Checks the options, and lets training continue if stdout is closed but it writes files.

    Raises:
        OdtError: for options that would have no effect.
    """
    _refuse_unused(options)
    if options.exports.paths or options.fit.save_to:
        keep_going()


def _refuse_unused(options: TrainOptions) -> None:
    """Raises OdtError for options that would have no effect."""
    fit = options.fit
    exports = options.exports
    session = options.session
    has_interval = fit.save_every is not None
    refuse_alone("--property", fit.properties, "--export-checkpoint", fit.save_to)
    refuse_alone("--export-checkpoint-every", has_interval, "--export-checkpoint", fit.save_to)
    an_export = "--export-circle or another export"
    exports_model = exports.paths or options.run.run_dir
    refuse_alone("--export-weights", exports.export_weights, an_export, exports_model)
    refuse_alone("--keep-best", session.keep_best, an_export, exports_model)
    adapters = options.model.adapters
    refuse_alone("--export-adapters", exports.export_adapters, "--adapters", adapters)
    refuse_alone("--png", options.rate_test.png, "--find-rate", options.rate_test.find_rate)
    if options.rate_test.find_rate:
        _refuse_outputs(options)
    splits = fit.validation_split or session.checkpoint
    refuse_alone("--stratify", fit.stratify, "--validation-split", splits)
    refuse_alone("--new-data", fit.new_data, "--checkpoint", session.checkpoint)
    quantizing = {
        "--quantize-aware": options.quantize_aware,
        "--quantize-weights": options.quantize_weights,
        "--adapters": adapters,
    }
    chosen = [name for name, value in quantizing.items() if value]
    if len(chosen) > 1:
        raise OdtError(f"{chosen[0]}: must be given without {chosen[1]}, but got both")
    refuse_alone("--cache-dtype", session.cache_dtype, "--cache-frozen", session.cache_frozen)


def _refuse_outputs(options: TrainOptions) -> None:
    """Raises OdtError for files that a learning rate range test does not write."""
    outputs = {"--run-dir": options.run.run_dir, **outputs_of(click.get_current_context())}
    for name, path in outputs.items():
        if path and name != "--png":
            raise OdtError(
                f"{name}: must be given without --find-rate, which trains no model, but got both."
            )


def check_exports(trainer: odt.Trainer, options: TrainOptions) -> None:
    """Checks that the weights can be exported; warns if training would write nothing."""
    exports = options.exports.paths
    is_onnx = trainer.model.format == ONNX
    keeps = keeps_adapters(trainer.session, options.exports.float_weights)
    to_folder = options.run.run_dir and not keeps
    if exports.keys() - {ADAPTERS} or to_folder:
        # None stands for the model's own format. An ONNX model is checked for that by its name.
        formats: list[str | None]
        if is_onnx:
            formats = [kind for kind in exports if kind in FORMATS]
        else:
            others = {*FLATBUFFERS} - {trainer.model.format}
            formats = [*others & {kind.removesuffix("+") for kind in exports}]
        if not formats or to_folder:
            formats.append(None)
        for file_format in formats:
            check_export(
                trainer.session,
                file_format,
                float_weights=options.exports.float_weights,
                training_info="circle+" in exports,
            )
    writes = exports or options.fit.save_to
    if not writes and options.fit.epochs and not spelled_as_one():
        onnx = "--export-onnx, " if is_onnx else ""
        click.echo(
            f"Warning: nothing will be written. Give {onnx}--export-tflite, --export-circle, "
            "--export-checkpoint or --run-dir to keep what is trained.",
            err=True,
        )


def check_files(model: odt.Model, options: TrainOptions) -> None:
    """Raises OdtError if a file would be written over one that is read.

    The trained model may replace its model file if the format is the same, and a checkpoint an
    earlier one.
    """
    exports = options.exports.paths
    names = {kind: f"--export-{kind.replace('+', 'plus')}" for kind in exports}
    written = {"--export-checkpoint": options.fit.save_to, "--png": options.rate_test.png}
    written |= {names[kind]: path for kind, path in exports.items()}
    files = {
        **keywords(options.samples),
        "sample_weight": options.fit.sample_weight,
        "teacher": options.teacher.teacher,
        "teacher_outputs": options.teacher.teacher_outputs,
    }
    read = {f"--{name.replace('_', '-')}": path for name, path in files.items()}
    read |= {"MODEL": model.path, "--checkpoint": options.session.checkpoint}
    read |= {"--adapters": options.model.adapters}
    formats = {"circle": ("circle", "circleplus"), "tflite": ("tflite",), "onnx": ("onnx",)}
    replaces = [(f"--export-{kind}", "MODEL") for kind in formats[model.format]]
    replaces += [("--export-checkpoint", "--checkpoint"), ("--export-adapters", "--adapters")]
    check_outputs(written, read, replaces)
    for kind, path in exports.items():
        if kind == ADAPTERS:
            check_adapters_path(path, model)
        else:
            _check_model_file(names[kind], path, kind, model)


def _check_model_file(name: str, path: str, kind: str, model: odt.Model) -> None:
    """Checks the format of a file that is written; warns if it replaces the model."""
    check_ending(name, path, kind)
    if (kind == ONNX) != (model.format == ONNX) and kind in (ONNX, "circle+"):
        raise OdtError(
            f"{name} {path}: must be left out for {model.path}, of the format {model.format}. Give "
            f"`export_{model.format}=`."
        )
    if os.path.exists(path) and os.path.samefile(path, model.path) and not spelled_as_one():
        click.echo(
            f"Warning: {name} {path}: the trained model will replace MODEL, which is then gone. "
            "Give another name to keep both.",
            err=True,
        )


def model_of(path: str, options: ModelOptions) -> odt.Model:
    """Reads the model that the options describe."""
    return odt.load_model(path, **keywords(options))


def quantized(model: odt.Model, options: TrainOptions) -> tuple[odt.Model, TrainOptions]:
    """Returns the quantized model of a float model, and the options with which it trains.

    Raises:
        UnsupportedError: if the model is quantized, or odt does not support an operator.
        DataError: if the training inputs do not fit the model.
    """
    if options.quantize_weights:
        scheme: Any = WEIGHTS[options.quantize_weights]
        return odt.quantize(model, scheme=scheme).model, options
    data = require("--data or --load-input", options.samples.load_input, INPUTS)
    default = None if options.session.checkpoint else "follow"
    recipe = {**options.recipe, "quant_ranges": options.recipe["quant_ranges"] or default}
    return odt.quantize(model, data).model, replace(options, recipe=recipe)


def trainer_arguments(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the arguments of `odt.Trainer` that the options of any command describe.

    Args:
        values: what Click passes to the command.
    """
    return {
        **{name: values[name] for name in TRAINER if name in values},
        "hyper_parameters": {n: values[n] for n in HYPER_PARAMETERS if n in values},
        "trainable": group(odt.Trainable, values),
    }


def trainer_of(model: odt.Model, options: TrainOptions) -> odt.Trainer:
    """Returns the trainer that the options describe."""
    selection = options.selection
    selects = (
        selection.last is not None
        or selection.operators
        or options.session.checkpoint
        or model.training_info
    )
    if spelled_as_one() and not selects and fresh_head(lowered_of(model).graph):
        selection = replace(selection, last=-1)  # onert_train trains all, also for new last layers
    arguments = {
        **trainer_arguments(options.recipe),
        **keywords(options.session),
        "trainable": selection,
        "teacher": teacher_of(options.teacher),
        "frozen_int8": options.samples.load_input if options.frozen_int8 else None,
    }
    return odt.Trainer(model, **arguments)


def with_task(model: odt.Model, options: TrainOptions) -> TrainOptions:
    """Returns the options with the task of the data, and its defaults.

    Frozen layers of a detector are cached if only its heads train, without augmentation.

    Raises:
        ModelError: if the model is a damaged detector.
    """
    session = options.session
    values = {**options.recipe, **keywords(session), **keywords(options.selection)}
    caches = session.checkpoint is None and not options.fit.augment
    names = task_options(model, options.samples.load_expected, values, caches=caches)
    return replace(options, session=replace(session, **names))


def task_options(
    model: odt.Model, boxes: str | None, values: Mapping[str, Any], *, caches: bool
) -> Mapping[str, Any]:
    """Returns the options that boxes as targets set: the task, and a cache of frozen layers.

    Args:
        model: the model.
        boxes: path of the targets; None if there are none.
        values: the options of a command.
        caches: whether outputs of frozen layers can be cached.

    Raises:
        ModelError: if the model is a damaged detector.
    """
    record = recorded(boxes)
    if values["task"] is None and not (record and record.boxes):
        return {}
    from odt.tasks.recognition import detector_of  # for boxes alone

    detector = detector_of(file_of(model))
    selects = group(odt.Trainable, values) != odt.Trainable() or values["sparse"]
    caches = caches and not selects and values["memory_budget"] is None
    if detector is None or not detector.trains_heads or not caches:
        return {"task": "boxes"}
    return {
        "task": "boxes",
        "cache_frozen": values["cache_frozen"] or "ram",
        "cache_dtype": values["cache_dtype"] or "float16",
    }


def print_recipe(model: str, options: TrainOptions) -> None:
    """Prints the recipe of a command line."""
    ctx = click.get_current_context()
    recipe = recipe_of(ctx)
    source = model_of(model, options.model)
    trainer = trainer_of(source, with_task(source, options))
    click.echo(recipe_text(recipe, trainer), nl=False)
    if outputs := outputs_of(ctx):
        click.echo("\n# Files to write, which are given on the command line:")
    for name, path in outputs.items():
        click.echo(f"# {name} {toml(path)}")


def open_samples(trainer: odt.Trainer, options: TrainOptions) -> TrainingData:
    """Checks that exports can be written, and opens the samples; returns the arguments of `fit`.

    Raises:
        DataError: if the files do not fit the model.
        OdtError: if options contradict each other or the data.
    """
    for path in options.exports.paths.values():
        # An unwritable path is an error now, not after hours of training.
        AtomicFile(path).discard()
    files = (
        require("--data or --load-input", options.samples.load_input, INPUTS),
        require("--load-expected", options.samples.load_expected, TARGETS),
    )
    session = trainer.session
    fit = options.fit
    if fit.new_data:
        session.resume = session.resume.on_new_data()
    data = session.open(odt.DataSet(*files, ignore_rest=spelled_as_one()))
    trainer.record = recorded(files[0])
    validation_set = _validation_data(trainer, options.samples)
    if fit.shuffle is None:
        checkpoint = session.resume.checkpoint
        shuffle = checkpoint.progress.shuffle if checkpoint else not spelled_as_one()
        fit = replace(fit, shuffle=shuffle)
    _refuse_uncompared(trainer, options, validated=bool(fit.validation_split or validation_set))
    info = session.recipe.info
    augment = fit.augment or session.resume.progress.augment
    is_random = bool(info.dropout or info.qas)
    uses_seed = fit.shuffle or fit.validation_split or augment or is_random
    is_used = uses_seed or options.rate_test.find_rate
    refuse_alone("--seed", fit.seed is not None, "--shuffle or --dropout", is_used)
    if spelled_as_one():
        fit = replace(fit, drop_last=True, stratify=False)
    return TrainingData(data, validation_set, fit)


def _refuse_uncompared(trainer: odt.Trainer, options: TrainOptions, *, validated: bool) -> None:
    """Raises OdtError if options compare epochs by a missing value, or --monitor is not used."""
    session = options.session
    schedule = trainer.session.recipe.info.schedule
    plateau = schedule is not None and schedule.on_plateau
    users = {
        "--keep-best": session.keep_best,
        "--patience": options.fit.patience,
        "--schedule plateau": plateau,
    }
    if session.monitor.startswith("val_"):
        for option, value in users.items():
            refuse_alone(option, value, "--validation-split or --validation-input", validated)
    is_chosen = session.monitor != "val_loss"
    refuse_alone("--monitor", is_chosen, " or ".join(users), any(users.values()))


def _validation_data(trainer: odt.Trainer, files: SampleFiles) -> DataSet | None:
    """Returns the validation samples of separate files; None if there are none."""
    inputs, targets = files.validation_input, files.validation_expected
    refuse_alone("--validation-input", inputs, "--validation-expected", targets)
    refuse_alone("--validation-expected", targets, "--validation-input", inputs)
    if not inputs:
        return None
    data = trainer.session.open(odt.DataSet(inputs, targets, ignore_rest=spelled_as_one()))
    from odt.cli.output.training_log import warnings_as_lines  # it imports this module

    with warnings_as_lines():
        warn(same_file(files.load_input, inputs, data.length))
    return data


def show_detector(trainer: odt.Trainer) -> None:
    """Prints what a detector is, and the slots of the classes that it learns."""
    detection = trainer.session.detection
    if detection is not None:
        click.echo(f"detector: {detection.detector}")
        if detection.names:
            click.echo(f"classes: {detection.classes_line()}")


def build(trainer: odt.Trainer, data: TrainingData) -> None:
    """Plans and allocates the memory that `fit` will need."""
    session = trainer.session
    fit = data.fit
    before = session.resume.progress
    has_weights = fit.sample_weight is not None or fit.class_weight is not None
    scales = Scales.SAMPLES if has_weights or before.class_weight else Scales.BATCH
    scales = max(scales, scales_of(data.samples.weights))
    samples = fit.data_length or data.samples.length
    samples += data.validation.length if data.validation else 0
    augment = fit.augment or before.augment
    session.build(
        samples,
        scales=scales,
        prepared=session.prepared_nbytes(augment, scales),
        shuffled=fit.shuffle is not False,
    )


def fit(trainer: odt.Trainer, data: TrainingData, callbacks: Sequence[odt.Callback]) -> None:
    """Trains with the options of the command line."""
    trainer.fit(
        data.samples,
        callbacks=callbacks,
        validation_data=data.validation,
        verbose=0,  # one of the callbacks shows progress
        fine_tune=not spelled_as_one(),
        **keywords(data.fit),
    )


def write_exports(trainer: odt.Trainer, options: TrainOptions, lost: LostFileError | None) -> None:
    """Writes the trained models, or a checkpoint if the model's own file is lost.

    Args:
        trainer: a trainer that has finished training.
        options: options of the command.
        lost: the error that ended training if a file was lost; a last checkpoint is written first.

    Raises:
        LostFileError: if the model's file is lost.
    """
    exports = options.exports.paths
    folder = options.run.run_dir
    float_weights = options.exports.float_weights
    preprocessing = options.exports.preprocessing and not spelled_as_one()
    try:
        if lost:
            trainer.checkpoints.finish()
        for kind, path in exports.items():
            if kind == ADAPTERS:
                trainer.export_adapters(path)
                continue
            trainer.export(
                path,
                kind.rstrip("+"),
                float_weights=float_weights,
                training_info=kind == "circle+",
                preprocessing=preprocessing,
            )
        written = [*exports.values()]
        if folder and keeps_adapters(trainer.session, float_weights):
            written.append(os.path.join(folder, "adapters.npz"))
            trainer.export_adapters(written[-1])
        elif folder:
            written.append(os.path.join(folder, f"model.{trainer.model.format}"))
            trainer.export(written[-1], float_weights=float_weights, preprocessing=preprocessing)
        if trainer.worse and written:
            click.echo(
                f"Warning: {', '.join(written)}: the loss is higher than before training, as the "
                "line of the last epoch says.",
                err=True,
            )
    except LostFileError as e:
        path = f"{next(iter(exports.values()), options.fit.save_to)}.rescued.odt"
        trainer.checkpoints.rescue(path)
        raise LostFileError(
            f"{e} The weights are saved as {path}; put the model file back, and export them with "
            "this --checkpoint and --epochs 0."
        ) from e
