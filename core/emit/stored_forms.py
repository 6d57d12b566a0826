"""Weights that are float32 in memory and have another type in the file."""

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from odt.core.integers.stored_values import bias_quantization, integer_biases, layer_scale
from odt.core.model.dequantize import FLOAT16, DequantizedGraph
from odt.core.model.model import Model
from odt.dataclass import dataclass
from odt.kernels.geometry.quantize import Quantization, dequantize, quantize
from odt.kernels.rows.opdef import Array

INT32 = np.dtype(np.int32)
NORMAL = 0x0400, 0x7C00  # the bits of normal positive numbers of float16


@dataclass(frozen=True, slots=True)
class StoredBias:
    """A bias of a quantized layer: integers of 32 bits whose scales stay; zero points are 0.

    Attributes:
        integers: those of the file, which stay where the bias does, because float32 does not hold
            all integers of 32 bits.
        before: the real numbers that they represent, in float32.
        scale: scale of each value, float32.
    """

    integers: Array
    before: Array
    scale: Array

    def stored(self, bias: Array) -> Array:
        """Returns the integers for real numbers."""
        steps = Quantization(self.scale, np.zeros(self.scale.size, np.int64), 0)
        values: Array = np.where(bias == self.before, self.integers, quantize(bias, steps, INT32))
        return values.astype("<i4")

    def sample(self, rng: np.random.Generator) -> Array:
        """Returns real numbers that integers represent exactly, and few of which are equal."""
        values: Array = rng.integers(2, 120, self.scale.shape) * self.scale
        return values


@dataclass(frozen=True, slots=True)
class StoredFloat16:
    """A weight of float16.

    Attributes:
        shape: its shape.
    """

    shape: tuple[int, ...]

    def stored(self, weight: Array) -> Array:
        """Returns the nearest numbers of float16, infinite above its range."""
        with np.errstate(over="ignore"):
            return weight.astype("<f2")

    def sample(self, rng: np.random.Generator) -> Array:
        """Returns numbers that float16 represents exactly, and few of which are equal."""
        bits: Any = rng.integers(*NORMAL, self.shape, np.uint16)
        values: Array = bits.view(FLOAT16).astype(np.float32)
        return values


StoredForm = StoredBias | StoredFloat16


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


def stored_halves(
    model: Model, dequantized: DequantizedGraph
) -> Iterator[tuple[int, StoredFloat16]]:
    """Yields tensor and form of the dense weights of float16.

    Args:
        model: the model.
        dequantized: its graph with float32 weights.
    """
    for weight, stored in dequantized.stored.items():
        spec = model.graph.tensors[stored].spec
        if spec.dtype == FLOAT16 and stored not in model.sparsity:
            yield weight, StoredFloat16(spec.shape)
