"""Compare two models: their outputs on the same samples, or their weights and operators."""

from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import Any

import click

import odt
from odt.cli.options.data_folder import data_folder
from odt.cli.options.sample_files import input_option
from odt.cli.options.sections import Command
from odt.cli.options.shared import input_options, require, schedule_options
from odt.cli.options.types import Finite
from odt.errors import OdtError
from odt.evaluation.comparison import describe_difference
from odt.progress import Progress

TOLERANCE = 1e-5  # as a fraction of the range of the outputs


@click.command(cls=Command)
@click.argument("first", metavar="A", type=click.Path())
@click.argument("second", metavar="B", type=click.Path())
@data_folder("test")
@input_option
@click.option(
    "--tolerance",
    type=Finite(0),
    show_default=f"{TOLERANCE:g}",
    help="Largest accepted difference, as a fraction of the range of A's outputs.",
)
@click.option(
    "--diff",
    is_flag=True,
    help="Compare the files instead of the outputs: constants, operators, signatures, metadata.",
)
@input_options
@schedule_options
def command(
    first: str,
    second: str,
    load_input: str | None,
    tolerance: float | None,
    diff: bool,
    input_shapes: Mapping[str, Any] | None,
    input_values: Mapping[str, Any] | None,
    batch_size: int | None,
    micro_batch: int | None,
    workers: int | None,
) -> None:
    """Compare the outputs of the models A and B on the same samples.

    The exit status is 1 if an output differs by more than --tolerance.

    With --diff, show the differences between the files. For each constant: how many values differ,
    the largest absolute difference, and the norm of the difference relative to the norm in A.
    Weights are compared as float32. The exit status is 1 if the models differ.
    """
    if diff:
        output_options = {
            "--load-input": load_input,
            "--tolerance": tolerance,
            "--input-shape": input_shapes,
            "--input-value": input_values,
            "--batch-size": batch_size,
            "--micro-batch": micro_batch,
            "--workers": workers,
        }
        for name, value in output_options.items():
            if value is not None:
                raise OdtError(f"{name}: must be given without --diff, but got both.")
        same = _same_files(first, second)
    else:
        same = _same_outputs(
            (
                odt.load_model(first, input_shapes=input_shapes, input_values=input_values),
                odt.load_model(second, input_shapes=input_shapes, input_values=input_values),
            ),
            require(
                "--data or --load-input", load_input, "the file with the inputs of all samples"
            ),
            tolerance=TOLERANCE if tolerance is None else tolerance,
            batch_size=batch_size or 32,
            micro_batch=micro_batch,
            workers=workers,
        )
    if not same:
        raise click.exceptions.Exit(1)


def _same_files(first: str, second: str) -> bool:
    """Prints the differences between two files; returns whether there are none."""
    difference = odt.compare_models(first, second)
    click.echo("\n".join(describe_difference(difference, (first, second))))
    return difference.is_empty


def _same_outputs(
    models: tuple[odt.Model, odt.Model],
    inputs: str,
    *,
    tolerance: float,
    batch_size: int,
    micro_batch: int | None,
    workers: int | None,
) -> bool:
    """Prints how far the outputs of two models differ; returns whether the tolerance holds."""
    with closing(Progress()) as bar:
        agreements = odt.compare_outputs(
            *models,
            inputs,
            batch_size=batch_size,
            micro_batch=micro_batch,
            workers=workers,
            progress=partial(bar, "verify"),
        )
    for k, agreement in enumerate(agreements):
        click.echo(f"output {k}: {agreement}")
    same = all(agreement.relative <= tolerance for agreement in agreements)
    if not same:
        click.echo(f"The outputs differ by more than {tolerance:g} of their range.")
    return same
