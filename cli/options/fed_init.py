"""Translates options of `odt fed init` to the settings of a Flower app."""

import os

import click

import odt
from odt.cli.options.fed_options import FedOptions
from odt.cli.options.fed_run import model_of, part_of, training_data
from odt.cli.options.sections import RAW_VALUES, usual_name
from odt.core.storage.reading import open_input
from odt.errors import OdtError
from odt.federated.flower.settings import FEDERATION, KEYS
from odt.kernels.loss_text import is_plugin

# Parameters of the model and of data, whose files become settings as absolute paths.
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
    model = model_of(options)
    odt.load_model(model)  # raises the error of a file that is no model
    settings: dict[str, object] = {"model": os.path.abspath(model)}
    parts = {"load": training_data(options), "validation": part_of(options, "test")}
    for part, data in parts.items():
        if data is None:
            continue
        for kind, path in (("input", data.x), ("expected", data.y)):
            open_input(path).close()  # a file that is not there is an error now, not in a client
            settings[f"{part}-{kind}"] = os.path.abspath(path)
    texts = ctx.meta.get(RAW_VALUES, {})
    for parameter in ctx.command.params:
        name = str(parameter.name)
        value = ctx.params.get(name)
        key = usual_name(parameter).lstrip("-")
        if name in FILES or (name not in texts and key not in FEDERATION) or value is None:
            continue
        if key not in KEYS:
            text = texts[name]
            typed = ", ".join(text) if isinstance(value, tuple) else text
            raise OdtError(
                f"--{key}: must be left out of a Flower app, but got {typed}. Give client_app in "
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
