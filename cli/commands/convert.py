"""Convert a model: TFLite to Circle and back, ONNX to both, GGUF to Circle."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

import odt
from odt.cli.options.shared import input_options, max_detections_option
from odt.cli.output.output_paths import FORMATS, check_outputs, extension_of
from odt.core.model.graph import MAX_NAME
from odt.core.model.model import ONNX
from odt.errors import OptionError, one_line
from odt.models.language import CONTEXT, is_gguf


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
@click.option(
    "--context",
    type=click.IntRange(1),
    help=f"Number of tokens that a language model from a GGUF file reads.  [default: {CONTEXT}]",
)
@input_options
@max_detections_option
def command(
    source: str,
    output: str,
    export_weights: str,
    context: int | None,
    input_shapes: Mapping[str, Any] | None,
    input_values: Mapping[str, Any] | None,
    max_detections: int | None,
) -> None:
    """Convert the model IN to OUT. The extension of OUT, .circle or .tflite, selects the format.

    Weights, names, metadata, signatures and training info stay unchanged, byte for byte, unless
    --export-weights float or --max-detections is given. A model that the other format cannot
    represent is refused. An ONNX model becomes a file of TFLite's operators; inputs and outputs
    keep names and layouts. A language model in a GGUF file becomes a Circle file with the same
    blocks of 4 and 8 bits, for --context tokens, with its tokenizer.
    """
    extension = extension_of("OUT", output, FORMATS)
    if is_gguf(source):
        others = {
            "float_weights": export_weights == "float",
            "input_shapes": input_shapes,
            "input_values": input_values,
            "max_detections": max_detections,
        }
        _convert_gguf(source, output, extension, context, others)
        return
    if context is not None:
        raise OptionError("context", f"must be left out for {source}, no GGUF file", context)
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


def _convert_gguf(
    source: str, output: str, extension: str, context: int | None, others: Mapping[str, Any]
) -> None:
    """Converts a GGUF file; refuses options of other files, and other formats than Circle."""
    for name, value in others.items():
        if value:
            raise OptionError(name, f"must be left out for {source}, a GGUF file")
    extension_of("OUT", output, [e for e, name in FORMATS.items() if name == "circle"])
    check_outputs({"OUT": output}, {"IN": source})
    odt.convert_gguf(source, output, CONTEXT if context is None else context)
    new = odt.load_model(output)
    click.echo(f"{source} (gguf) is now {output} ({FORMATS[extension]})")
    click.echo(f"{_shapes(new.inputs)} -> {_shapes(new.outputs)}")


def _shapes(tensors: Sequence[odt.TensorInfo]) -> str:
    """Formats names and shapes of inputs or outputs."""
    return ", ".join(f"{one_line(t.name, MAX_NAME)} {t.shape}" for t in tensors)
