"""Write the training of a model as a C program, for devices without Python."""

from dataclasses import replace
from typing import Any

import click

import odt
from odt.cli.options.fit import update_options
from odt.cli.options.rows import group, keyword_options, row_options
from odt.cli.options.sections import Command
from odt.cli.options.shared import (
    hyper_parameter_options,
    interface_options,
    last_operators_option,
    loss_options,
    model_argument,
    selection_options,
    sequence_options,
)
from odt.cli.options.training_run import model_of, trainer_arguments
from odt.core.options.compile_options import COMPILE_OPTIONS
from odt.core.options.model_options import ModelOptions
from odt.core.options.schedule_options import SCHEDULE_OPTIONS
from odt.core.options.training_options import RECIPE_OPTIONS

HELP = {
    "optimizer": "Optimizer, but not adafactor or adam8bit, which are not compiled.",
    "learning_rate": "Learning rate. Must be given, unless a circle+ file states it.",
}
OPTIMIZER_OPTIONS = {n: replace(RECIPE_OPTIONS[n], help=text) for n, text in HELP.items()}


@click.command(cls=Command)
@model_argument
@interface_options
@sequence_options
@loss_options
@row_options(OPTIMIZER_OPTIONS)
@last_operators_option
@update_options
@selection_options
@hyper_parameter_options
@row_options(SCHEDULE_OPTIONS, "batch_size", "micro_batch")
@keyword_options(COMPILE_OPTIONS)
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(),
    required=True,
    metavar="FOLDER",
    help="New folder for the C files.",
)
@click.option(
    "--name",
    default="",
    metavar="NAME",
    help="Prefix of the C functions. Default: the name of MODEL.",
)
@click.option(
    "--export/--no-export",
    default=True,
    show_default=True,
    help="Let the program write the trained model file, which it then contains but for the "
    "weights that train.",
)
def command(
    model: str,
    folder: str,
    name: str,
    target: str,
    ram: int | None,
    stack: int | None,
    export: bool,
    **options: Any,
) -> None:
    """Write the training of MODEL as a C program in FOLDER.

    The program needs gcc or clang, but no Python, no operating system and no heap. It trains,
    evaluates and predicts in static memory. Options and defaults are those of `odt train`, except
    that the learning rate must be given.
    """
    source = model_of(model, group(ModelOptions, options))
    device: dict[str, Any] = {"target": target, "ram": ram, "stack": stack}
    arguments = {**device, **trainer_arguments(options)}
    program = odt.compile(source, folder, name=name, export=export, **arguments)
    click.echo(program)
