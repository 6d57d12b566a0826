"""Convert a TFLite model to Circle, a Circle model to TFLite, or an ONNX model to either."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

import odt
from odt.cli.options.shared import input_options, max_detections_option
from odt.cli.output.output_paths import FORMATS, check_outputs, extension_of
from odt.core.model.graph import MAX_NAME
from odt.core.model.model import ONNX
from odt.errors import OptionError, one_line


@click.command()
@click.argument("source", metavar="IN", type=click.Path())
@click.argument("output", metavar="OUT", type=click.Path())
@click.option(
    "--export-weights",
    type=click.Choice(["as-stored", "float"]),
    default="as-stored",
    show_default=True,
    help="Type of weights that the model stores as float16, integers or sparse: the stored type, "
    "or float32. With float, activations of integers become float32 too.",
)
@input_options
@max_detections_option
def command(
    source: str,
    output: str,
    export_weights: str,
    input_shapes: Mapping[str, Any] | None,
    input_values: Mapping[str, Any] | None,
    max_detections: int | None,
) -> None:
    """Convert the model IN to OUT. The extension of OUT, .circle or .tflite, selects the format.

    Weights, names, metadata, signatures and training info stay unchanged, byte for byte, unless
    --export-weights float or --max-detections is given. A model that the other format cannot
    represent is refused. An ONNX model becomes a file of TFLite's operators; inputs and outputs
    keep names and layouts.
    """
    extension = extension_of("OUT", output, FORMATS)
    model = odt.load_model(
        source,
        input_shapes=input_shapes,
        input_values=input_values,
        max_detections=max_detections,
    )
    for name, value in (("input_shapes", input_shapes), ("input_values", input_values)):
        if value and model.format != ONNX:
            raise OptionError(name, f"must be left out for {source}, no ONNX model", dict(value))
    check_outputs({"OUT": output}, {"IN": model.path})
    model.save(output, float_weights=export_weights == "float")
    click.echo(f"{source} ({model.format}) is now {output} ({FORMATS[extension]})")
    if model.format == ONNX:
        new = odt.load_model(output)
        click.echo(f"layouts as in {source}: {_shapes(new.inputs)} -> {_shapes(new.outputs)}")


def _shapes(tensors: Sequence[odt.TensorInfo]) -> str:
    """Formats names and shapes of inputs or outputs."""
    return ", ".join(f"{one_line(t.name, MAX_NAME)} {t.shape}" for t in tensors)
