"""Verify that two models compute the same outputs on the same data."""

from contextlib import closing
from functools import partial

import click

from odt.cli.options.sections import Command
from odt.cli.options.shared import given, input_option, schedule_options
from odt.cli.output.progress import Progress
from odt.core.formats.reader import read_model
from odt.core.recipe.lowered_model import lower_model
from odt.core.training.inference import Predictor
from odt.data.sources import samples_of
from odt.evaluation.comparison import compare_outputs


@click.command(cls=Command)
@click.argument("first", metavar="A", type=click.Path())
@click.argument("second", metavar="B", type=click.Path())
@input_option
@click.option(
    "--tolerance",
    type=click.FloatRange(0),
    default=1e-5,
    show_default=True,
    help="Largest accepted difference, as a fraction of the range of A's outputs.",
)
@schedule_options
def command(
    first: str,
    second: str,
    load_input: str | None,
    tolerance: float,
    batch_size: int | None,
    micro_batch: int | None,
    workers: int | None,
) -> None:
    """Compare the outputs of the models A and B on the same samples.

    The exit status is 1 if an output differs by more than --tolerance.
    """
    inputs = given("--load-input", load_input, "the file with the inputs of all samples")
    batch, options = batch_size or 32, {"micro_batch": micro_batch, "workers": workers}
    a, b = (lower_model(read_model(path), outputs="computed").graphs for path in (first, second))
    with Predictor(a, batch, **options) as one, Predictor(b, batch, **options) as other:
        data, others = (samples_of(inputs, None, model.runtime) for model in (one, other))
        with closing(Progress()) as bar:
            seen = partial(bar, "verify")
            agreements = compare_outputs(one, other, (data, others), data.length, seen)
    failed = False
    for k, agreement in enumerate(agreements):
        part = agreement.largest / agreement.span if agreement.span else agreement.largest
        same = "" if agreement.top is None else f"; same largest output in {agreement.top:.2%}"
        click.echo(
            f"output {k}: largest difference {agreement.largest:.3g}, {part:.3g} of the range "
            f"{agreement.span:.3g}, in sample {agreement.sample} of {data.length}{same}"
        )
        failed |= not part <= tolerance
    if failed:
        click.echo(f"The outputs differ by more than {tolerance:g} of their range.")
        raise click.exceptions.Exit(1)
