"""Translates options of `odt train` to arguments of `odt.Trainer` and its `fit`."""

import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any

import click

import odt
from odt.cli.options.onert import spelled_as_one
from odt.cli.options.shared import given
from odt.cli.options.teacher import teacher_of
from odt.cli.output.output_paths import check_ending, check_outputs
from odt.cli.output.signals import keep_going
from odt.core.data.dataset import DataSet
from odt.core.model.model import ONNX
from odt.core.options.training_options import SELECTION_OPTIONS
from odt.core.recipe.fresh_head import fresh_head
from odt.core.storage.atomic_files import AtomicFile
from odt.data.sources import recorded
from odt.errors import LostFileError, OdtError
from odt.kernels.rows.row_index import HYPER_PARAMETERS
from odt.kernels.rows.schedules import ReduceOnPlateau
from odt.models.model import lowered_of
from odt.training.exports import check_export

# Arguments of `fit` for command lines in ONE's spelling.
ONE_HABITS = {"drop_last": True, "stratify": False, "fine_tune": False}
VALIDATION_FILES = ("validation_input", "validation_expected")
ADAPTERS = "adapters"
EXPORTS = {
    "circle": "export_circle",
    "tflite": "export_tflite",
    "circle+": "export_circleplus",
    "onnx": "export_onnx",
    ADAPTERS: "export_adapters",
}  # format of a model, or adapters → parameter


def exports_of(options: dict[str, Any]) -> dict[str, str]:
    """Returns the paths of the models to write, by format."""
    return {kind: options[name] for kind, name in EXPORTS.items() if options[name]}


def refuse_alone(option: str, value: object, other: str, given: object) -> None:
    """Raises OdtError if an option is given without the one that it needs."""
    if value and not given:
        raise OdtError(f"{option}: must come with {other}, but got it alone")


def requested_exports(options: dict[str, Any]) -> dict[str, str]:
    """The models to write; from here on they are written even if stdout is closed.

    Raises:
        OdtError: for options that would have no effect.
    """
    exports = exports_of(options)
    _refuse_unused(options, exports)
    if exports or options["save_to"]:
        keep_going()
    return exports


def _refuse_unused(options: dict[str, Any], exports: dict[str, str]) -> None:
    """Raises OdtError for options that would have no effect."""
    written = options["save_to"]
    every = options["save_every"] is not None
    model = "--export-circle or another export"
    refuse_alone("--property", options["properties"], "--export-checkpoint", written)
    refuse_alone("--export-checkpoint-every", every, "--export-checkpoint", written)
    exported = exports or options["run_dir"]
    refuse_alone("--export-weights", options["export_weights"], model, exported)
    refuse_alone("--keep-best", options["keep_best"], model, exported)
    refuse_alone("--export-adapters", options["export_adapters"], "--adapters", options["adapters"])
    refuse_alone("--png", options["png"], "--find-rate", options["find_rate"])
    refuse_alone("--new-data", options["new_data"], "--checkpoint", options["checkpoint"])
    if options["quantize_aware"] and options["adapters"]:
        raise OdtError("--quantize-aware: must be given without --adapters, but got both")
    refuse_alone("--cache-dtype", options["cache_dtype"], "--cache-frozen", options["cache_frozen"])


def check_exports(trainer: odt.Trainer, exports: dict[str, str], options: dict[str, Any]) -> None:
    """Checks that the weights can be exported; warns if training would write nothing."""
    if exports or options["run_dir"]:
        floats = options["export_weights"] == "float"
        check_export(trainer.session, float_weights=floats, training_info="circle+" in exports)
    written = exports or options["save_to"]
    if not written and options["epochs"] and not spelled_as_one():
        click.echo(
            "Warning: nothing will be written. Give --export-tflite, --export-circle, "
            "--export-checkpoint or --run-dir to keep what is trained.",
            err=True,
        )


def check_files(model: odt.Model, exports: dict[str, str], options: dict[str, Any]) -> None:
    """Raises OdtError if a file would be written over one that is read.

    The trained model may replace its model file if the format is the same, and a checkpoint an
    earlier one.
    """
    names = {kind: f"--export-{kind.replace('+', 'plus')}" for kind in exports}
    written = {"--export-checkpoint": options["save_to"], "--png": options["png"]}
    written |= {names[kind]: path for kind, path in exports.items()}
    files = (
        "load_input",
        "load_expected",
        "sample_weight",
        "teacher",
        "teacher_outputs",
        *VALIDATION_FILES,
    )
    read = {f"--{n.replace('_', '-')}": options[n] for n in files}
    read |= {"MODEL": model.path, "--checkpoint": options["checkpoint"]}
    read |= {"--adapters": options["adapters"]}
    formats = {"circle": ("circle", "circleplus"), "tflite": ("tflite",), "onnx": ("onnx",)}
    itself = formats[model.format]
    replaces = [(f"--export-{kind}", "MODEL") for kind in itself]
    replaces += [("--export-checkpoint", "--checkpoint"), ("--export-adapters", "--adapters")]
    check_outputs(written, read, replaces)
    for kind, path in exports.items():
        if kind == ADAPTERS:
            continue
        check_ending(names[kind], path, kind)
        if ONNX in (kind, model.format) and kind != model.format:
            raise OdtError(
                f"{names[kind]} {path}: must have the format of {model.path}, but got {kind}. Give "
                f"`export_{model.format}=`."
            )
        if os.path.exists(path) and os.path.samefile(path, model.path) and not spelled_as_one():
            click.echo(
                f"Warning: {names[kind]} {path}: the trained model will replace MODEL, which is "
                "then gone. Give another name to keep both.",
                err=True,
            )


def model_of(path: str, options: Mapping[str, Any]) -> odt.Model:
    """Reads the model that the options describe."""
    return odt.load_model(
        path,
        options.get("adapters"),
        signature=options["signature"],
        input_shapes=options["input_shapes"],
        sequence_length=options["sequence_length"],
        return_sequences=options["return_sequences"],
    )


def passed_on(options: Mapping[str, Any], function: Callable[..., Any]) -> dict[str, Any]:
    """Returns the options whose names are arguments of a function."""
    accepted = inspect.signature(function).parameters
    return {name: value for name, value in options.items() if name in accepted}


def quantized(model: odt.Model, options: dict[str, Any]) -> tuple[odt.Model, dict[str, Any]]:
    """Returns the int8 model of a float model, and the options with which it trains.

    Raises:
        UnsupportedError: if the model is quantized, or odt does not support an operator.
        DataError: if the training inputs do not fit the model.
    """
    data = given("--load-input", options["load_input"], "the file with the inputs of all samples")
    ranges = options["quant_ranges"] or (None if options["checkpoint"] else "follow")
    return odt.quantize(model, data).model, {**options, "quant_ranges": ranges}


def trainable_of(options: Mapping[str, Any]) -> odt.Trainable:
    """Returns the selection of trainable weights that the options describe."""
    chosen = {name: options.get(name) for name in SELECTION_OPTIONS}
    return odt.Trainable(**{name: value for name, value in chosen.items() if value is not None})


def recipe_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of `odt.Trainer` that the options of any command describe."""
    rates = {name: options[name] for name in HYPER_PARAMETERS if name in options}
    return {
        **passed_on(options, odt.Trainer),
        "hyper_parameters": rates,
        "trainable": trainable_of(options),
    }


def trainer_of(model: odt.Model, options: dict[str, Any]) -> odt.Trainer:
    """Returns the trainer that the options describe; does not change the options."""
    last = options["last"]
    elsewhere = options["operators"] or options["checkpoint"] or model.training_info
    if last is None and spelled_as_one() and not elsewhere and fresh_head(lowered_of(model).graph):
        last = -1  # as onert_train, also for new last layers
    return odt.Trainer(
        **{
            **recipe_arguments({**options, "last": last}),
            "model": model,
            "metrics": options["metrics"],
            "teacher": teacher_of(options),
            "frozen_int8": options["load_input"] if options["frozen_int8"] else None,
        }
    )


def open_samples(trainer: odt.Trainer, options: dict[str, Any]) -> tuple[DataSet, dict[str, Any]]:
    """Opens the samples; returns them and the other arguments of `fit`.

    Raises:
        DataError: if the files do not fit the model.
        OdtError: if options contradict each other or the data.
    """
    for path in exports_of(options).values():
        AtomicFile(
            path
        ).discard()  # an unwritable path is an error now, not after hours of training
    files = (
        given("--load-input", options["load_input"], "the file with the inputs of all samples"),
        given("--load-expected", options["load_expected"], "the file with the expected outputs"),
    )
    session = trainer.session
    if options["new_data"]:
        session.resume = session.resume.on_new_data()
    data = session.open(odt.DataSet(*files, ignore_rest=spelled_as_one()))
    trainer.record = recorded(files[0])
    held = _validation_data(trainer, options)
    validated = options["validation_split"] or held
    shuffle = options["shuffle"]
    if shuffle is None:
        own = session.resume.own
        shuffle = own.progress.shuffle if own else not spelled_as_one()
    uses_seed = shuffle or options["validation_split"] or options["augment"]
    refuse_alone("--seed", options["seed"] is not None, "--shuffle", uses_seed)
    plateau = isinstance(session.recipe.info.schedule, ReduceOnPlateau)
    users = {
        "--keep-best": options["keep_best"],
        "--patience": options["patience"],
        "--schedule plateau": plateau,
    }
    if options["monitor"].startswith("val_"):
        for option, value in users.items():
            refuse_alone(option, value, "--validation-split or --validation-input", validated)
    other = options["monitor"] != "val_loss"
    refuse_alone("--monitor", other, " or ".join(users), any(users.values()))
    return (
        data,
        {
            **passed_on(options, trainer.fit),
            "shuffle": shuffle,
            "validation_data": held,
            **(ONE_HABITS if spelled_as_one() else {}),
            "properties": options["properties"],
        },
    )


def _validation_data(trainer: odt.Trainer, options: dict[str, Any]) -> DataSet | None:
    """The validation samples of their own files; None if there are none."""
    inputs, targets = (options[name] for name in VALIDATION_FILES)
    refuse_alone("--validation-input", inputs, "--validation-expected", targets)
    refuse_alone("--validation-expected", targets, "--validation-input", inputs)
    if not inputs:
        return None
    return trainer.session.open(odt.DataSet(inputs, targets, ignore_rest=spelled_as_one()))


def build(
    trainer: odt.Trainer, data: DataSet, fit: dict[str, Any], options: dict[str, Any]
) -> None:
    """Plans and allocates the memory that `fit` will need."""
    given = (options["sample_weight"], options["class_weight"])
    session, before = trainer.session, trainer.session.resume.progress
    weighted = any(w is not None for w in given) or bool(before.class_weight)
    held = fit["validation_data"]
    samples = (options["data_length"] or data.length) + (held.length if held else 0)
    augment = options["augment"] or before.augment
    session.build(samples, weighted=weighted, prepared=session.prepared(augment))


def write_exports(
    trainer: odt.Trainer,
    exports: dict[str, str],
    options: dict[str, Any],
    lost: LostFileError | None,
) -> None:
    """Writes the trained models, or a checkpoint if the model's own file is lost.

    Args:
        trainer: a trainer that has finished training.
        exports: path by format.
        options: options of the command.
        lost: the error that ended training if a file was lost; a last checkpoint is written first.

    Raises:
        LostFileError: if the model's file is lost.
    """
    floats = options["export_weights"] == "float"
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
                float_weights=floats,
                training_info=kind == "circle+",
                preprocessing=options["preprocessing"] and not spelled_as_one(),
            )
        if options["run_dir"]:
            path = os.path.join(options["run_dir"], f"model.{trainer.model.format}")
            trainer.export(path, float_weights=floats)
        written = [*exports.values(), *([path] if options["run_dir"] else [])]
        if trainer.worse and written:
            click.echo(
                f"Warning: {', '.join(written)}: the loss is higher than before training, as the "
                "line of the last epoch says.",
                err=True,
            )
    except LostFileError as e:
        path = f"{next(iter(exports.values()), options['save_to'])}.rescued.odt"
        trainer.checkpoints.rescue(path)
        raise LostFileError(
            f"{e} The weights are saved as {path}; put the model file back, and export them with "
            "this --checkpoint and --epochs 0."
        ) from e
