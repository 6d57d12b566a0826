"""Calls `odt.federated.simulate` with the options of `odt fed simulate`."""

from collections.abc import Callable

import numpy as np

import odt
from odt.cli.options.data_folder import find_file
from odt.cli.options.exports import ADAPTERS
from odt.cli.options.fed_options import FedOptions
from odt.cli.options.rows import keywords
from odt.cli.options.sections import typed_options
from odt.cli.options.shared import errors_as, require
from odt.cli.options.training_run import refuse_alone, trainer_arguments
from odt.cli.output.output_paths import check_ending, check_outputs, extension_of
from odt.core.options.training_options import SELECTION_OPTIONS
from odt.core.storage.atomic_files import AtomicFile
from odt.core.storage.reading import reading
from odt.errors import DataError, OdtError
from odt.federated import simulation
from odt.federated.defaults import new_trainer
from odt.federated.federation import Federation
from odt.federated.history import History, Round
from odt.training.exports import check_adapters_path

PLOTS = (".svg", ".png")


def check_files(options: FedOptions) -> None:
    """Checks the output paths before anything is computed.

    Raises:
        OdtError: if a file would be written over another, or its extension or folder is wrong.
    """
    files = options.files
    exports = options.exports.paths
    written = {"--log": files.log, "--plot": files.plot}
    written["--export-checkpoint"] = files.export_checkpoint
    written |= {f"--export-{kind}": path for kind, path in exports.items()}
    read = {"--model": files.model, "--adapters": files.adapters, "--checkpoint": files.checkpoint}
    for name, path in keywords(options.samples).items():
        read[f"--{name.replace('_', '-')}"] = path
    replaces = [("--export-checkpoint", "--checkpoint"), ("--export-adapters", "--adapters")]
    replaces += [(f"--export-{kind}", "--model") for kind in exports if kind != ADAPTERS]
    check_outputs(written, read, replaces)
    adapters = options.exports.export_adapters
    refuse_alone("--export-adapters", adapters, "--adapters", files.adapters)
    for kind, path in exports.items():
        if kind == ADAPTERS:
            check_adapters_path(path, model_of(options))
        else:
            check_ending(f"--export-{kind}", path, kind)
    if files.plot:
        extension_of("--plot", files.plot, PLOTS)
    # An unwritable path is an error now, not after the rounds.
    for path in filter(None, written.values()):
        AtomicFile(path, OdtError).discard()


def model_of(options: FedOptions) -> str:
    """Returns the path of the model, which must be given."""
    return require("--model", options.files.model, "the model that is trained")


def trainer_of(options: FedOptions) -> odt.Trainer:
    """Returns the trainer that takes the place of each client in turn."""
    path = model_of(options)
    arguments = {**trainer_arguments(options.recipe), "checkpoint": None}
    return new_trainer(odt.load_model(path, options.files.adapters), **arguments)


def simulate(
    trainer: odt.Trainer,
    options: FedOptions,
    on_begin: Callable[[Federation], None],
    on_round: Callable[[Round], None],
) -> History:
    """Calls `odt.federated.simulate` with the options.

    Raises:
        OdtError: if the data files are not given.
    """
    data = training_data(options)
    test = part_of(options, "test")
    partition = options.federation.partition
    if partition.endswith(".npy"):
        with reading(partition, "must hold the number of the client of each sample"):
            partition = np.load(partition)
    typed = typed_options()
    selection = [name for name, row in SELECTION_OPTIONS.items() if f"--{row.word}" in typed]
    with errors_as("trainable", selection):
        return simulation.simulate(
            trainer,
            data,
            **{**keywords(options.federation), "partition": partition},
            validation_data=test,
            checkpoint=options.files.checkpoint,
            save_to=options.files.export_checkpoint,
            log=options.files.log,
            on_begin=on_begin,
            on_round=on_round,
        )


def training_data(options: FedOptions) -> odt.DataSet:
    """Returns the files of the training samples, which must be given."""
    rule = "a folder of odt gen-datafile, or --load-input"
    return require("--data", part_of(options, "train"), rule)


def part_of(options: FedOptions, part: str) -> odt.DataSet | None:
    """Returns the files of the part train or test: given one by one, or in the folder --data."""
    samples = options.samples
    inputs, targets, name = {
        "train": (samples.load_input, samples.load_expected, "load"),
        "test": (samples.validation_input, samples.validation_expected, "validation"),
    }[part]
    refuse_alone(f"--{name}-input", inputs, f"--{name}-expected", targets)
    refuse_alone(f"--{name}-expected", targets, f"--{name}-input", inputs)
    folder = options.files.data
    if inputs and folder and part == "train":
        raise OdtError("--data: must be given without --load-input, but got both. Leave one out.")
    if inputs:
        return odt.DataSet(inputs, targets)
    if not folder:
        return None
    x, y = (find_file(folder, part, kind) for kind in ("input", "output"))
    if x and y:
        return odt.DataSet(x, y)
    if part == "train":
        raise DataError(
            f"{folder}: must hold the files train.input… and train.output… of odt gen-datafile. "
            "Give --load-input and --load-expected for other files."
        )
    return None
