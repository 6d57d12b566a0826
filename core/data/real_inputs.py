"""Samples of a quantized model, for a float model with the same inputs."""

from collections.abc import Sequence

import numpy as np

from odt.core.data.protocol import Data, SampleOrder
from odt.kernels.geometry.quantize import Quantization, dequantize
from odt.kernels.rows.opdef import Array, TensorSpec


class RealInputs:
    """Data whose inputs of integers are read as the real numbers that they represent.

    Attributes:
        weights: weights of samples and positions; None for 1.

    Args:
        data: the samples.
        specs: specs of one sample of each of their inputs.
        quantizations: quantization of each input; None for inputs that are read as they are.
    """

    def __init__(
        self,
        data: Data,
        specs: Sequence[TensorSpec],
        quantizations: Sequence[Quantization | None],
    ) -> None:
        self.weights = data.weights
        self._data, self._specs, self._quantizations = data, specs, quantizations

    def read(self, samples: SampleOrder, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        """Reads samples into the arrays, one row each."""
        stored = [
            out if q is None else np.empty(out.shape, spec.dtype)
            for out, spec, q in zip(inputs, self._specs, self._quantizations, strict=True)
        ]
        self._data.read(samples, stored, targets)
        for out, integers, q in zip(inputs, stored, self._quantizations, strict=True):
            if q is not None:
                out[...] = dequantize(integers, q)
