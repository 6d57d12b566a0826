"""Show the memory that training needs, by purpose, without allocating it."""

import importlib
from typing import Any

import click

import odt
from odt.cli.options.adapters import adapters_option
from odt.cli.options.cache import cache_options
from odt.cli.options.rows import group, keyword_options
from odt.cli.options.sections import Command
from odt.cli.options.shared import (
    budget_option,
    gradient_options,
    hyper_parameter_options,
    interface_options,
    model_argument,
    regularization_options,
    schedule_options,
    selection_options,
    sequence_options,
    sparse_option,
    training_options,
)
from odt.cli.options.training_run import model_of, trainer_arguments
from odt.cli.output.output_paths import check_outputs
from odt.cli.output.plan_picture import draw
from odt.core.options.analysis_options import PLAN_OPTIONS
from odt.core.options.model_options import ModelOptions

# Modules that `odt train` imports besides those of this command; shuffling draws from numpy.random.
TRAINING = ("numpy.random", "odt.cli.output.training_log")


@click.command(cls=Command)
@model_argument
@interface_options
@sequence_options
@training_options
@selection_options
@sparse_option
@adapters_option
@hyper_parameter_options
@gradient_options
@regularization_options
@schedule_options
@budget_option
@cache_options
@keyword_options(PLAN_OPTIONS)
@click.option("--calls", is_flag=True, help="Print the plan, the memory plan and the calls.")
@click.option(
    "--png",
    type=click.Path(),
    metavar="FILE",
    help="Write a chart of the memory over the calls of a step.",
)
def command(
    model: str,
    data_length: int | None,
    frozen_int8: bool,
    calls: bool,
    png: str | None,
    target: str | None,
    **values: Any,
) -> None:
    """Show the memory that training MODEL would need, by purpose, and its micro-batches.

    Options and defaults are those of `odt train`.
    """
    for name in TRAINING:  # whose memory the forecast counts
        importlib.import_module(name)
    source = model_of(model, group(ModelOptions, values))
    check_outputs({"--png": png}, {"MODEL": source.path})
    arguments = {**trainer_arguments(values), "frozen_int8": frozen_int8 or None}
    forecast = odt.plan(source, data_length=data_length, target=target, **arguments)
    click.echo(forecast.summary())
    if calls:
        click.echo(forecast.calls())
    if png:
        draw(forecast, png)
