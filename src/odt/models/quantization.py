"""Post-training quantization."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from odt.arguments import checked_arguments
from odt.charts.html import paragraph, scrolled, table
from odt.core.quantization import quantize_model as engine
from odt.core.quantization.quantize_model import LayerNoise
from odt.core.quantization.write_weights import STORED
from odt.core.recipe.option_values import words_of
from odt.data.sources import samples_of
from odt.dataclass import dataclass
from odt.errors import MAX_MESSAGE, OptionError, one_line
from odt.habits import known_arguments, missing_attribute
from odt.models.model import Model, Path, file_of

Scheme: TypeAlias = Literal[
    "int8",
    "int16x8",
    "int8-weights",
    "int4-weights",
    "int4-block32-weights",
    "int4-block64-weights",
    "int4-block128-weights",
    "int4-block256-weights",
    "int2-weights",
    "float16",
]
InterfaceType: TypeAlias = Literal["float32", "int8", "uint8", "int16"]  # of inputs and outputs
Ranges: TypeAlias = Literal["percentile", "minmax", "mse"]

SHOWN = 5  # layers with most noise


@dataclass(frozen=True, slots=True)
class QuantizedModel:
    """A quantized model, and what quantization changed; printed as lines of text.

    Attributes:
        model: the model.
        scheme: the scheme of `quantize`.
        integer: number of operators that compute integers, or whose weights are stored in fewer
            bits.
        real: position and name of each operator that computes float32.
        layers: signal-to-noise ratio of each layer, in the order of the model; empty if only
            weights are quantized.
    """

    model: Model
    scheme: str
    integer: int
    real: tuple[str, ...]
    layers: tuple[LayerNoise, ...]

    @property
    def noise(self) -> dict[str, float]:
        """Signal-to-noise ratio in dB by name of a layer's output, in the order of the model."""
        return {layer.tensor: layer.decibels for layer in self.layers}

    def __repr__(self) -> str:
        operators = f"{self.integer} of {self.integer + len(self.real)} operators"
        last = f", {self.layers[-1].decibels:.1f} dB at the last layer" if self.layers else ""
        return f"QuantizedModel({self.model!r}, {self.scheme}, {operators}{last})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            what = "odt.QuantizedModel"
            raise missing_attribute(name, lambda: dir(type(self)), what, "QuantizedModel")

    def _repr_html_(self) -> str:
        rows = [("#", "operator", "output", "signal-to-noise ratio")]
        rows += [
            (str(n.operator), n.op, one_line(n.tensor, MAX_MESSAGE // 4), f"{n.decibels:.1f} dB")
            for n in self.layers
        ]
        layers = scrolled(table(rows, right=(0, 3))) if self.layers else ""
        return f"<div>{paragraph(str(self).splitlines()[0], bold=True)}{layers}</div>"

    def __str__(self) -> str:
        """Returns the lines that `odt quantize` prints."""
        count = self.integer + len(self.real)
        verb = "store weights as" if self.scheme in STORED else "compute"
        dtype = self.scheme.removesuffix("-weights")
        lines = [f"{self.integer} of {count} operators {verb} {dtype}"]
        if self.real:
            lines[0] += f"; float32: {one_line(', '.join(self.real), MAX_MESSAGE)}"
        convolves = any(node.operator == "CONV_2D" for node in self.model.nodes)
        if self.scheme.startswith(("int4", "int2")) and convolves:
            lines.append(
                "CONV_2D with int4 weights needs ai-edge-litert 1.2.0 or newer: older runtimes "
                "compute other numbers without an error"
            )
        if self.layers:
            last = self.layers[-1].decibels
            lines.append(f"signal-to-noise ratio: {last:.1f} dB at the last layer; lowest:")
            lowest = sorted(self.layers, key=lambda layer: layer.decibels)[:SHOWN]
            lines += [
                f"  {layer.decibels:5.1f} dB  {layer.operator} {layer.op}  "
                f"{one_line(layer.tensor, MAX_MESSAGE // 4)}"
                for layer in lowest
            ]
        return "\n".join(lines)


@known_arguments()
@checked_arguments
def quantize(
    model: Model | Path,
    data: Any = None,
    *,
    scheme: Scheme = "int8",
    input_type: InterfaceType = "float32",
    output_type: InterfaceType = "float32",
    ranges: Ranges = "percentile",
    samples: int = 100,
    keep_float: str | Sequence[str] = (),
) -> QuantizedModel:
    """Quantizes a model with float activations, after training.

    Operators that LiteRT computes with integers get integers; the others keep float32, between
    conversions. Weights have one scale for each unit. Signatures and metadata stay; training info
    is left out.

    Args:
        model: a model or the path of its file.
        data: inputs (N, …) from which the ranges of activations are measured: arrays or the path of
            a data file. Not read if only weights are quantized.
        scheme: int8: activations and weights. int16x8: activations of 16 bits, weights of 8.
            Others: weights alone; operators compute real numbers. int4-block32-weights: one scale
            for each 32 weights of a unit in FULLY_CONNECTED; other operators as with int4-weights.
            int2-weights: 2 bits in FULLY_CONNECTED, 4 in CONV_2D.
        input_type: type of the model's inputs: float32, int8 or uint8; with int16x8 float32 or
            int16.
        output_type: type of the model's outputs, as input_type.
        ranges: choice of an activation's range. percentile: without 0.001 % of the values on each
            side. minmax: from the smallest to the largest value. mse: with the least mean squared
            error.
        samples: maximum number of samples to use. They are evenly spaced in the data.
        keep_float: one or several patterns; operators keep float32 if a pattern matches their kind
            or the name of their output.

    Returns:
        The quantized model.

    Raises:
        ModelError: if the model cannot be read.
        OptionError: if a word is unknown, the types do not fit, a pattern matches nothing, no
            operator can be quantized, the data are missing, or `ranges` or `samples` is given if
            only weights are quantized.
        UnsupportedError: if the model is quantized, or odt does not support an operator.
        DataError: if the data do not fit the model.
    """
    settings = engine.Settings(
        scheme=scheme,
        inputs=input_type,
        outputs=output_type,
        ranges=ranges,
        samples=samples,
        keep_float=words_of("keep_float", keep_float),
    )
    file = file_of(model)
    if scheme in STORED:
        result = engine.store_weights(file, settings)
    elif data is None:
        raise OptionError("data", "must be given to measure the ranges of activations", "none")
    else:
        result = engine.quantize_model(file, partial(samples_of, data, None), settings)
    return QuantizedModel(
        model=Model(result.model),
        scheme=scheme,
        integer=result.integer,
        real=result.real,
        layers=result.noise,
    )
