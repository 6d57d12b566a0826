"""Biases of quantized layers: real numbers in memory, integers of 32 bits in the file."""

from collections.abc import Collection, Iterator

import numpy as np

from odt.core.integers.stored_values import bias_quantization, integer_biases, layer_scale
from odt.core.model.model import Model
from odt.dataclass import dataclass
from odt.kernels.geometry.quantize import Quantization, dequantize, quantize
from odt.kernels.rows.opdef import Array

INT32 = np.dtype(np.int32)


@dataclass(frozen=True, slots=True)
class StoredBias:
    """How a file stores a bias whose scales stay; zero points are 0.

    Attributes:
        integers: those of the file, which stay where the bias does, because float32 does not hold
            all integers of 32 bits.
        before: the real numbers that they represent, in float32.
        scale: scale of each value, float32.
    """

    integers: Array
    before: Array
    scale: Array

    def integers_of(self, bias: Array) -> Array:
        """Returns the integers for real numbers."""
        steps = Quantization(self.scale, np.zeros(self.scale.size, np.int64), 0)
        values: Array = np.where(bias == self.before, self.integers, quantize(bias, steps, INT32))
        return values.astype("<i4")


def stored_biases(model: Model, changed: Collection[int]) -> Iterator[tuple[int, StoredBias]]:
    """Yields tensor and form of the biases of 32 bits in layers whose scales stay.

    Args:
        model: the model.
        changed: weights whose scales training changes.
    """
    for x, w, b in integer_biases(model):
        old = model.quantization.get(b)
        integers = model.graph.tensors[b].data
        assert integers is not None, "biases are constants"
        if integers.dtype == INT32 and w not in changed and not (old and old.zero_point.any()):
            steps = bias_quantization(old, layer_scale(model, x, w))
            scale = np.broadcast_to(steps.scale, integers.shape)
            yield b, StoredBias(integers, dequantize(integers, steps), scale)
