"""Post-training quantization."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from odt.core.quantization import quantize_model as engine
from odt.core.quantization.write_weights import STORED
from odt.data.sources import samples_of
from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.models.model import Model, Path, file_of

Type = Literal["float32", "int8", "uint8", "int16"]


@dataclass(frozen=True, slots=True)
class QuantizedModel:
    """A quantized model, and what quantization changed.

    Attributes:
        model: the model.
        real: operators that compute float32: position and name.
        noise: name of a layer's output → signal-to-noise ratio in dB, in the order of the model;
            empty if only weights are quantized.
    """

    model: Model
    real: tuple[str, ...]
    noise: dict[str, float]


def quantize(
    model: Model | Path,
    data: Any = None,
    *,
    scheme: Literal["int8", "int16x8", "int8-weights", "int4-weights", "float16"] = "int8",
    input_type: Type = "float32",
    output_type: Type = "float32",
    ranges: Literal["percentile", "minmax", "mse"] = "percentile",
    samples: int = 100,
    keep_float: Sequence[str] = (),
) -> QuantizedModel:
    """Quantizes a model with float activations, after training.

    Operators that LiteRT computes with integers get integers; the others keep float32, between
    conversions. Weights have one scale for each unit. Signatures and metadata stay; training info
    is left out.

    Args:
        model: a model or the path of its file.
        data: inputs (N, …) from which the ranges of activations are measured: arrays or the path of
            a data file. Not needed if only weights are quantized.
        scheme: int8: activations and weights. int16x8: activations of 16 bits, weights of 8.
            int8-weights, int4-weights, float16: weights alone; operators compute real numbers.
        input_type: type of the model's inputs: float32, int8 or uint8; with int16x8 float32 or
            int16.
        output_type: type of the model's outputs, as input_type.
        ranges: range of an activation: without 0.001 % of the values on each side, smallest to
            largest value, or with the least mean squared error.
        samples: number of samples, evenly spaced in the data, that are used at most.
        keep_float: patterns of operators, or of names of their outputs, that keep float32.

    Returns:
        The quantized model.

    Raises:
        OptionError: if a word is unknown, the types do not fit, a pattern matches nothing, no
            operator can be quantized, or the data are missing.
        UnsupportedError: if the model is quantized, or odt does not support an operator.
        DataError: if the data do not fit the model.
    """
    settings = engine.Settings(scheme, input_type, output_type, ranges, samples, tuple(keep_float))
    file = file_of(model)
    if scheme in STORED:
        result = engine.store_weights(file, settings)
    elif data is None:
        raise OptionError("data", "must be given to measure the ranges of activations", "none")
    else:
        result = engine.quantize_model(file, partial(samples_of, data, None), settings)
    noise = {layer.tensor: layer.decibels for layer in result.noise}
    return QuantizedModel(Model(result.model), result.real, noise)
