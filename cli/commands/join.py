"""Put the weights of trained parts back into the model that they were cut from."""

import click

import odt
from odt.cli.options.shared import model_argument, require
from odt.cli.output.output_paths import FORMATS, check_outputs, extension_of
from odt.cli.output.training_log import warnings_as_lines
from odt.errors import OdtError
from odt.models.model import file_of
from odt.text import quantity


@click.command()
@model_argument
@click.argument("parts", nargs=-1, required=True, type=click.Path(), metavar="PART...")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    metavar="FILE",
    help="File of the model with the weights of the parts, in MODEL's format.",
)
def command(model: str, parts: tuple[str, ...], output: str | None) -> None:
    """Write MODEL with the weights of its trained parts; everything else in MODEL stays.

    Each PART is a model that odt cut made of MODEL, and usually odt train has trained.
    """
    path = require("--output", output, "the file that is written")
    source = odt.load_model(model)
    file_of(source).check_flatbuffer("odt join")
    extension = extension_of("--output", path, FORMATS)
    if FORMATS[extension] != source.format:
        raise OdtError(f"--output: must be a {source.format} file as {model}, but got {path}.")
    read = [odt.load_model(part) for part in parts]
    check_outputs({"--output": path}, {"MODEL": source.path, **{f"PART {p}": p for p in parts}})
    with warnings_as_lines():
        changed = odt.join(source, read, path)
    click.echo(f"{path}: {model} with {quantity(changed, 'weight')} changed by {', '.join(parts)}")
