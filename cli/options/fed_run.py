"""Translates options of `odt fed simulate` to arguments of `odt.federated.simulate`."""

import glob
import os
from dataclasses import fields
from typing import Any

import numpy as np

import odt
from odt.cli.options.shared import require
from odt.cli.options.training_run import TRAINER, refuse_alone, trainable_of
from odt.cli.output.output_paths import check_ending, check_outputs, extension_of
from odt.core.storage.atomic_files import AtomicFile
from odt.core.storage.reading import reading
from odt.errors import DataError, OdtError
from odt.federated.defaults import new_trainer
from odt.federated.settings import Settings
from odt.kernels.rows.row_index import HYPER_PARAMETERS

MODELS = ("circle", "tflite", "onnx")  # formats of exports
WRITTEN = (
    *("log", "plot", "export_checkpoint"),
    *(f"export_{kind}" for kind in MODELS),
    "export_adapters",
)
PLOTS = (".svg", ".png")
SIMULATE = {*(f.name for f in fields(Settings)), "checkpoint", "log"} - {"rounds", "partition"}


def check_files(options: dict[str, Any]) -> None:
    """Checks the output paths before anything is computed.

    Raises:
        OdtError: if a file would be written over another, or its extension or folder is wrong.
    """
    written = {f"--{name.replace('_', '-')}": options[name] for name in WRITTEN}
    names = ("model", "load_input", "load_expected", "validation_input", "validation_expected")
    read = {f"--{name.replace('_', '-')}": options[name] for name in (*names, "adapters")}
    read["--checkpoint"] = options["checkpoint"]
    replaces = [("--export-checkpoint", "--checkpoint"), ("--export-adapters", "--adapters")]
    replaces += [(f"--export-{kind}", "--model") for kind in MODELS]
    check_outputs(written, read, replaces)
    refuse_alone("--export-adapters", options["export_adapters"], "--adapters", options["adapters"])
    for kind in MODELS:
        if options[f"export_{kind}"]:
            check_ending(f"--export-{kind}", options[f"export_{kind}"], kind)
    if options["plot"]:
        extension_of("--plot", options["plot"], PLOTS)
    for path in written.values():
        if path:
            AtomicFile(path, OdtError).discard()


def trainer_of(options: dict[str, Any]) -> odt.Trainer:
    """Returns the trainer that is every client in turn."""
    model = require("--model", options["model"], "the model that is trained")
    options = {name: value for name, value in options.items() if name != "model"}
    return new_trainer(
        odt.load_model(model, options["adapters"]),
        **{
            **{name: options[name] for name in TRAINER if name in options},
            "hyper_parameters": {name: options[name] for name in HYPER_PARAMETERS},
            "metrics": options["metrics"],
            "checkpoint": None,
            "trainable": trainable_of(options),
        },
    )


def arguments_of(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of `simulate` besides the trainer.

    Raises:
        OdtError: if the data files are not given.
    """
    data, test = part_of(options, "train"), part_of(options, "test")
    if data is None:
        raise OdtError("--data: must be given: a folder of odt gen-datafile, or --load-input.")
    partition = options["partition"]
    if partition.endswith(".npy"):
        with reading(partition, "must hold the number of the client of each sample"):
            partition = np.load(partition)
    return {
        **{name: options[name] for name in SIMULATE if name in options},
        "x": data,
        "partition": partition,
        "validation_data": test,
        "save_to": options["export_checkpoint"],
    }


def part_of(options: dict[str, Any], part: str) -> odt.DataSet | None:
    """Returns the files of the part train or test: given one by one, or in the folder --data."""
    names = {
        "train": ("load_input", "load_expected"),
        "test": ("validation_input", "validation_expected"),
    }[part]
    inputs, targets = (options[name] for name in names)
    first, second = (f"--{name.replace('_', '-')}" for name in names)
    refuse_alone(first, inputs, second, targets)
    refuse_alone(second, targets, first, inputs)
    if inputs:
        return odt.DataSet(inputs, targets)
    folder = options["data"]
    if not folder:
        return None
    files = [_file(folder, part, kind) for kind in ("input", "output")]
    if part == "train" and not all(files):
        raise DataError(
            f"{folder}: must hold the files train.input… and train.output… of odt gen-datafile. "
            "Give --load-input and --load-expected for other files."
        )
    return odt.DataSet(files[0], files[1]) if all(files) else None


def _file(folder: str, part: str, kind: str) -> str:
    """The data file of a part; empty if there is none or several."""
    every = sorted(glob.glob(f"{os.path.join(glob.escape(folder), part)}.{kind}*"))
    files = [path for path in every if not path.endswith(".json")]
    return files[0] if len(files) == 1 else ""
