"""Convert a TFLite model to Circle, or a Circle model to TFLite."""

import os

import click

from odt.cli.output.output_paths import FORMATS, check_outputs
from odt.core.export.exporter import export_model
from odt.core.model.reader import read_model
from odt.errors import OdtError


@click.command()
@click.argument("source", metavar="IN", type=click.Path())
@click.argument("output", metavar="OUT", type=click.Path())
def command(source: str, output: str) -> None:
    """Convert the model IN to OUT. The extension of OUT, .circle or .tflite, selects the format.

    Weights, names, metadata, signatures and training info stay unchanged, byte for byte. A model
    that the other format cannot represent is refused.
    """
    ending = os.path.splitext(output)[1].lower()
    if ending not in FORMATS:
        raise OdtError(f"{output}: must end in {' or '.join(FORMATS)}, but got {ending or 'none'}")
    model = read_model(source)
    check_outputs({"OUT": output}, {"IN": model.path})
    export_model(model, {}, output, FORMATS[ending])
    click.echo(f"{source} ({model.format}) is now {output} ({FORMATS[ending]})")
