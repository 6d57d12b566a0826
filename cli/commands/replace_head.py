"""Gives a model a new last layer, for other classes than those it was trained for."""

import os

import click

from odt.cli.options.shared import given, model_argument
from odt.cli.output.output_paths import FORMATS, check_outputs
from odt.core.export.exporter import export_model
from odt.core.export.replace_head import replace_head
from odt.core.model.reader import read_model
from odt.errors import OptionError


@click.command()
@model_argument
@click.option("--classes", type=click.IntRange(2), metavar="N", help="Of the new output.")
@click.option(
    "--output",
    type=click.Path(),
    metavar="FILE",
    help="Where the new model goes; its ending, .circle or .tflite, says the format.",
)
@click.option(
    "--after",
    type=click.IntRange(0),
    metavar="K",
    help="The operator whose output the new layer reads, as odt inspect counts them.  "
    "[default: the one before the last layer with weights]",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the new weights."
)
def command(
    model: str, classes: int | None, output: str | None, after: int | None, seed: int
) -> None:
    """Writes MODEL with a new FULLY_CONNECTED and SOFTMAX in place of its last layer.

    What is before it stays as it is, and what only the old layer needed goes. Names of classes,
    signatures and training info go too, for they describe the old outputs. Features that still
    have axes between batch and channels are averaged over these.
    """
    count = given("--classes", classes, "how many the new output has")
    path = given("--output", output, "the file that is written")
    ending = os.path.splitext(path)[1].lower()
    if ending not in FORMATS:
        raise OptionError(
            f"--output {path}: must end in {' or '.join(FORMATS)}, but got {ending or 'none'}."
        )
    source = read_model(model)
    check_outputs({"--output": path}, {"MODEL": source.path})
    new = replace_head(source, count, after, seed)
    export_model(new, {}, path, FORMATS[ending])
    names = [source.graph.label(i) for i in source.graph.outputs]
    click.echo(f"{path}: {count} classes in place of {', '.join(names)}")
    click.echo("The new layer alone trains with --num-of-trainable-ops 2.")
