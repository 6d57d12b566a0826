"""Show the memory that training needs, by purpose, and the time that it takes."""

import json
import time
from dataclasses import replace
from typing import Any

import click

import odt
from odt.cli.options.adapters import adapters_option
from odt.cli.options.cache import frozen_options
from odt.cli.options.rows import group, keyword_options
from odt.cli.options.sample_files import data_options
from odt.cli.options.sections import Command
from odt.cli.options.shared import (
    anchors_option,
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
    task_option,
    training_options,
)
from odt.cli.options.training_run import (
    load_training,
    model_of,
    refuse_alone,
    task_options,
    trainer_arguments,
)
from odt.cli.options.types import NewFile
from odt.cli.output.output_paths import check_outputs
from odt.cli.output.plan_picture import draw
from odt.cli.output.spelling import spell
from odt.core.options.analysis_options import PLAN_OPTIONS
from odt.core.options.fit_options import FIT_OPTIONS
from odt.core.options.model_options import ModelOptions
from odt.errors import OdtError


@click.command(cls=Command)
@model_argument
@interface_options
@anchors_option
@sequence_options
@task_option
@training_options
@selection_options
@sparse_option
@adapters_option
@hyper_parameter_options
@gradient_options
@regularization_options
@schedule_options
@budget_option
@data_options
@keyword_options(FIT_OPTIONS, "epochs", "validation_split", "patience")
@frozen_options
@keyword_options(PLAN_OPTIONS)
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
@click.option("--calls", is_flag=True, help="Print the plan, the memory plan and the calls.")
@click.option(
    "--png",
    type=NewFile(".png"),
    metavar="FILE",
    help="Write a chart of the memory over the calls of a step.",
)
def command(
    model: str,
    load_input: str | None,
    load_expected: str | None,
    epochs: int,
    validation_split: float,
    patience: int | None,
    data_length: int | None,
    frozen_int8: bool,
    as_json: bool,
    calls: bool,
    png: str | None,
    board: str | None,
    target: str | None,
    **values: Any,
) -> None:
    """Show the memory that training MODEL would need, by purpose, and the time of the run.

    Options and defaults are those of `odt train`. The last line is the verdict: the peak of the
    process against --memory-budget, and with --data or --data-length the time of the run, from
    steps that run here for at most two seconds.
    """
    refuse_alone("--load-input", load_input, "--load-expected", load_expected)
    refuse_alone("--load-expected", load_expected, "--load-input", load_input)
    if target is not None and load_input is not None:
        raise OdtError("--load-input: must be left out with --target, where nothing is measured.")
    load_training()
    # Seconds since Python began, without the threads of NumPy.
    until_imported = time.thread_time()
    source = model_of(model, group(ModelOptions, values))
    check_outputs({"--png": png}, {"MODEL": source.path})
    has_length = bool(load_input or data_length)  # which a cache needs
    values |= task_options(source, load_expected, values, caches=has_length)
    arguments = {**trainer_arguments(values), "frozen_int8": frozen_int8 or None}
    forecast = odt.plan(
        source,
        load_input,
        load_expected,
        epochs=epochs,
        validation_split=validation_split,
        patience=patience,
        data_length=data_length,
        board=board,
        target=target,
        **arguments,
    )
    if forecast.time and not board:
        start = until_imported + forecast.time.start
        forecast = replace(forecast, time=replace(forecast.time, start=start))
    text = json.dumps(forecast.as_dict(), indent=2) if as_json else spell(forecast.summary())
    click.echo(text)
    if calls:
        click.echo(forecast.calls())
    if png:
        draw(forecast, png)
