"""Quantize a float model after training: integers, or weights in fewer bits."""

from typing import cast, get_args

import click

import odt
from odt.cli.options.data_folder import data_folder
from odt.cli.options.sections import Decorator
from odt.cli.options.shared import model_argument, require, signature_option
from odt.cli.options.weights import WEIGHTS
from odt.cli.output.output_paths import FORMATS, check_outputs, extension_of
from odt.cli.output.training_log import warnings_as_lines
from odt.core.quantization.quantize_model import FLOAT
from odt.core.quantization.rules import SCHEMES
from odt.core.quantization.write_weights import STORED
from odt.core.training.ranges import METHODS
from odt.errors import OdtError
from odt.models.model import file_of
from odt.models.quantization import InterfaceType, Ranges, Scheme


def type_option(name: str, tensors: str) -> Decorator:
    """Returns the option for the type of the model's inputs or outputs.

    Args:
        name: name of the option.
        tensors: inputs or outputs.
    """
    return click.option(
        name,
        type=click.Choice(get_args(InterfaceType)),
        default=FLOAT,
        show_default=True,
        help=f"Type of the model's {tensors}.",
    )


@click.command()
@model_argument
@signature_option
@data_folder("train")
@click.option(
    "--calibrate",
    type=click.Path(),
    metavar="DATA",
    help="Data file of model inputs from which the ranges of activations are measured, in the "
    "formats of odt train --load-input. Not needed if only weights are quantized.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    metavar="FILE",
    help="File of the quantized model; its extension, .circle or .tflite, selects the format.",
)
@click.option(
    "--scheme",
    type=click.Choice([*SCHEMES, *STORED]),
    help="int8: activations and weights, the default. int16x8: activations of 16 bits, weights of "
    "8. Others: weights alone, as --weights; operators compute real numbers.",
)
@click.option(
    "--weights",
    type=click.Choice(tuple(WEIGHTS)),
    help="Type of the weights, if they alone are quantized, instead of --scheme. int4-block32: one "
    "scale for each 32 weights in FULLY_CONNECTED. int2: 2 bits in FULLY_CONNECTED. Layers that "
    "LiteRT cannot compute so have int4 or int8.",
)
@type_option("--input-type", "inputs")
@type_option("--output-type", "outputs")
@click.option(
    "--ranges",
    type=click.Choice(METHODS),
    default="percentile",
    show_default=True,
    help="Choice of an activation's range. percentile: without 0.001 % of the values on each side. "
    "minmax: from the smallest to the largest value. mse: with the least mean squared error.",
)
@click.option(
    "--samples",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Number of samples, evenly spaced in DATA, that are used at most.",
)
@click.option(
    "--keep-float",
    multiple=True,
    metavar="GLOB",
    help="Operators that keep float32, by operator, such as SOFTMAX, or by the name of their "
    "output. Repeatable.",
)
def command(
    model: str,
    signature: str | None,
    calibrate: str | None,
    output: str | None,
    scheme: Scheme | None,
    weights: str | None,
    input_type: InterfaceType,
    output_type: InterfaceType,
    ranges: Ranges,
    samples: int,
    keep_float: tuple[str, ...],
) -> None:
    """Quantize MODEL, which has float activations, after training.

    Operators that LiteRT computes with integers get integers; the others keep float32, between
    conversions. Signatures and metadata stay; training info is left out. Prints the layers with the
    lowest signal-to-noise ratio: --keep-float, another --ranges or int16x8 may help there.
    """
    path = require("--output", output, "the file that is written")
    extension_of("--output", path, FORMATS)
    if weights and scheme:
        raise OdtError(f"--weights: must be given without --scheme, but got {weights}, {scheme}")
    scheme = cast(Scheme, WEIGHTS[weights]) if weights else scheme or "int8"
    source = odt.load_model(model, signature=signature)
    check_outputs({"--output": path}, {"MODEL": source.path, "--calibrate": calibrate})
    if scheme not in STORED:
        require("--calibrate", calibrate, "the data from which ranges are measured")
    with warnings_as_lines():
        result = odt.quantize(
            source,
            calibrate,
            scheme=scheme,
            input_type=input_type,
            output_type=output_type,
            ranges=ranges,
            samples=samples,
            keep_float=keep_float,
        )
        result.model.save(path)
    sizes = [f"{len(file_of(each).data) / 1000:,.0f} kB" for each in (source, result.model)]
    click.echo(f"{path}: {' → '.join(sizes)}")
    click.echo(str(result))
