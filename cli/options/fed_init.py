"""Translates options of `odt fed init` to the settings of a Flower app."""

import os

import click

import odt
from odt.cli.options.fed_options import FedOptions
from odt.cli.options.fed_run import part_of
from odt.cli.options.sections import RAW_VALUES
from odt.cli.options.shared import require
from odt.errors import DataError, OdtError
from odt.federated.flower.settings import FEDERATION, KEYS
from odt.kernels.loss_text import is_plugin

# Parameters of files, which become settings as absolute paths.
FILES = {"data", "model", "load_input", "load_expected", "validation_input", "validation_expected"}


def settings_of(ctx: click.Context, folder: str) -> dict[str, object]:
    """Returns the settings: those of the federation, and the other options that are given.

    Paths are absolute, because Flower runs an app in a folder of its own.

    Raises:
        OdtError: if an option cannot be a setting, or model or data are not there.
    """
    options = FedOptions.from_values(ctx.params)
    partition = options.federation.partition
    if partition.endswith(".npy"):
        raise OdtError(
            "--partition: must be iid, dirichlet, by-label or by-column for a Flower app, but got "
            f"{partition}."
        )
    model = require("--model", options.files.model, "the model that is trained")
    odt.load_model(model)
    settings: dict[str, object] = {"model": os.path.abspath(model)}
    for part, name in (("train", "load"), ("test", "validation")):
        data = part_of(options, part)
        if data is None and part == "train":
            raise DataError("--data: must be given: a folder of odt gen-datafile, or --load-input.")
        if data is not None:
            settings[f"{name}-input"] = os.path.abspath(data.x)
            settings[f"{name}-expected"] = os.path.abspath(data.y)
    texts = ctx.meta.get(RAW_VALUES, {})
    for parameter in ctx.command.params:
        name = str(parameter.name)
        value = ctx.params.get(name)
        key = max((o.lstrip("-") for o in parameter.opts), key=len)
        if name in FILES or (name not in texts and key not in FEDERATION) or value is None:
            continue
        if key not in KEYS:
            raise OdtError(
                f"--{key}: must be left out of a Flower app, but got {value}. Give client_app in "
                "client_app.py a function that returns an odt.federated.Client."
            )
        if key == "loss" and is_plugin(str(value)):
            raise OdtError(
                f"--loss: must be one of odt's in a Flower app, but got {value}. Give client_app "
                "and server_app functions that use it."
            )
        settings[key] = ",".join(value) if isinstance(value, tuple) else value
    absolute = os.path.abspath(folder)
    suffix = os.path.splitext(model)[1]
    return {
        **settings,
        "timeout": 3600,  # seconds of a round
        "state": os.path.join(absolute, "state"),
        "out": os.path.join(absolute, f"trained{suffix}"),
    }
