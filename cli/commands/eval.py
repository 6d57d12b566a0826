"""Evaluate a model on data files: loss and metrics."""

from contextlib import closing
from functools import partial
from typing import Any

import click

from odt.cli.options.sections import Command
from odt.cli.options.shared import (
    check_data_option,
    data_options,
    loss_options,
    metric_option,
    model_argument,
    open_data,
    sample_weight_option,
    schedule_options,
)
from odt.cli.output import report
from odt.cli.output.progress import Progress
from odt.core.lowering.lowered_model import lower_model
from odt.core.model.reader import read_model
from odt.core.recipe.prepare import Request, prepare
from odt.core.training.inference import Evaluator
from odt.core.training.metrics import fitting_metrics
from odt.data import weights_of


@click.command(cls=Command)
@model_argument
@data_options
@check_data_option
@loss_options
@metric_option
@sample_weight_option
@schedule_options
def command(
    model: str,
    load_input: str | None,
    load_expected: str | None,
    check_data: bool,
    metric: tuple[str, ...],
    sample_weight: str | None,
    micro_batch: int | None,
    workers: int | None,
    **options: Any,
) -> None:
    """Evaluate MODEL: loss and metrics over all samples of the data files."""
    recipe = prepare(lower_model(read_model(model)), Request(**options))
    samples = recipe.samples
    with Evaluator(
        recipe.graphs,
        recipe.info,
        micro_batch=micro_batch,
        workers=workers,
        weighted=sample_weight is not None,
    ) as evaluator:
        metrics = fitting_metrics(metric, *samples.losses[0], logits=samples.logits[0])
        data = open_data(load_input, load_expected, evaluator.runtime)
        if sample_weight is not None:
            data = data.weighted(weights_of(sample_weight, data.length))
        if check_data:
            data.check_all()
        with closing(Progress()) as bar:
            seen = partial(bar, "eval")
            result = evaluator.run(data, range(data.length), metrics, seen)
    click.echo(f"{data.length} samples - {report.figures_line(result)}")
