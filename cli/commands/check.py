"""Check whether a model can be trained: operators, memory, FLOP, gradients on one batch.

The exit status is 1 if it cannot.
"""

from typing import Any

import click

import odt
from odt.cli.options.data_folder import data_folder
from odt.cli.options.rows import group, keyword_options
from odt.cli.options.sample_files import data_options
from odt.cli.options.sections import Command
from odt.cli.options.shared import (
    anchors_option,
    budget_option,
    interface_options,
    last_operators_option,
    loss_options,
    model_argument,
    require,
    schedule_options,
    selection_options,
    sequence_options,
    sparse_option,
)
from odt.cli.options.training_run import load_training, model_of, trainer_arguments
from odt.cli.output.spelling import spell
from odt.core.options.analysis_options import CHECK_OPTIONS
from odt.core.options.model_options import ModelOptions


@click.command(cls=Command)
@model_argument
@interface_options
@anchors_option
@data_folder("train")
@data_options
@sequence_options
@loss_options
@last_operators_option
@selection_options
@sparse_option
@budget_option
@keyword_options(CHECK_OPTIONS)
@schedule_options
def command(
    model: str, load_input: str | None, load_expected: str | None, seed: int, **values: Any
) -> None:
    """Check before a long run whether MODEL can be trained.

    Prints the weights that train, the constants that do not and why, the operators and weights that
    cannot be trained, the memory that odt train needs with the same options, and the floating-point
    operations (FLOP) of a step. Then tests one batch of at most 8 samples, from data files or
    random, in float64: the loss must be finite, every trainable tensor must have a finite, nonzero
    gradient that agrees with finite differences, and one step must lower the loss. Random values
    that leave units inactive or saturated are drawn again. A comparison that rounding makes
    impossible, or that would take too long, is reported as unknown and is not a failure. The
    verdict of odt plan precedes the last line: the peak of the process against --memory-budget
    and, with data files, the time of an epoch.
    """
    x, y = load_input, load_expected
    if x is not None or y is not None:
        x = require("--data or --load-input", x, "the file with the inputs of all samples")
        y = require("--load-expected", y, "the file with the expected outputs")
    load_training()
    source = model_of(model, group(ModelOptions, values))
    result = odt.check(source, x, y, seed=seed, show=_show, **trainer_arguments(values))
    if result.trains is False:
        raise click.exceptions.Exit(1)


def _show(text: str) -> None:
    click.echo(spell(text))
