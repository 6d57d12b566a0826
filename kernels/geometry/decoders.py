"""Decoders: the real numbers of a weight from what a file stores, integers or blocks.

Weights that do not train stay in memory as they are in the file, and a call decodes one before each
call that reads it (core/planning/stored_weights.py).
"""

from collections.abc import Sequence
from math import prod
from typing import Protocol

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.geometry.quantize import Quantization, steps_to_real
from odt.kernels.geometry.weight_quantization import WeightQuantization, unpack
from odt.kernels.rows.opdef import Array

BYTE = 8  # bits


class Decoder(Protocol):
    """Computes the real numbers of a weight from what a file stores."""

    def decode(self, stored: Array, out: Array) -> None:
        """Computes all real numbers; allocates nothing that grows with them.

        Args:
            stored: bytes, or integers in the shape of the weight.
            out: float32 in the shape of the weight.
        """

    def decode_rows(self, stored: Array, at: Array, out: Array) -> None:
        """Computes rows of a table, for which `can_decode_rows` holds.

        Args:
            stored: as for `decode`.
            at: flat, the number of each row.
            out: (rows, values of a row) float32.
        """

    def can_decode_rows(self, shape: Sequence[int]) -> bool:
        """Whether each row along axis 0 of a weight of some shape can be decoded alone."""


def decoded(decoder: Decoder, stored: Array, shape: Sequence[int]) -> Array:
    """Returns the real numbers of a weight of some shape."""
    out: Array = np.empty(shape, np.float32)
    decoder.decode(stored, out)
    return out


@dataclass(frozen=True, slots=True)
class IntegerDecoder:
    """Decoder of integers with scales.

    Attributes:
        quantization: the scales and zero points.
        bits: bits of an integer: 8, or 2 or 4 if a byte holds several.
    """

    quantization: Quantization
    bits: int = BYTE

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether compiled kernels decode a weight of some shape.

        Packed integers must have zero points of 0, and units that begin at whole bytes.
        """
        if self.bits == BYTE:
            return True
        outer, _, inner = self.quantization.units_of(shape)
        zeros = self.quantization.zero_point.any()
        return outer == 1 and inner * self.bits % BYTE == 0 and not zeros

    def decode(self, stored: Array, out: Array) -> None:
        """Computes all real numbers, as Decoder says."""
        integers = stored
        if self.bits < BYTE:
            integers = out
            unpack(stored, self.bits, out.reshape(-1, copy=False))
        q = self.quantization
        steps_to_real(q.rows(integers), *q.along_axis(out.ndim), q.rows(out))

    def decode_rows(self, stored: Array, at: Array, out: Array) -> None:
        """Computes rows of a table, as Decoder says."""
        rows = stored.reshape(-1, out.shape[1] * self.bits // BYTE)
        scale, zero = self.quantization.scale, self.quantization.zero_point
        if scale.size > 1:
            scale, zero = scale.reshape(len(rows), -1), zero.reshape(len(rows), -1)
        for row, values in zip(at, out, strict=True):
            s, z = (scale[row], zero[row]) if scale.ndim > 1 else (scale, zero)
            if self.bits < BYTE:
                unpack(rows[row], self.bits, values)
            parts = values.reshape(s.size, -1, copy=False)
            integers = parts if self.bits < BYTE else rows[row].reshape(parts.shape)
            steps_to_real(integers, s[:, np.newaxis], z[:, np.newaxis], parts)

    def can_decode_rows(self, shape: Sequence[int]) -> bool:
        """Whether rows can be decoded alone, as Decoder says."""
        q = self.quantization
        by_row = q.scale.size == 1 or q.blocks or q.axis == 0
        return len(shape) > 1 and bool(by_row) and prod(shape[1:]) * self.bits % BYTE == 0


@dataclass(frozen=True, slots=True)
class RoundingDecoder:
    """Decoder of floats that train, which are rounded to numbers that the file can store.

    Attributes:
        quantization: the integers and their scales.
    """

    quantization: WeightQuantization

    def decode(self, stored: Array, out: Array) -> None:
        """Rounds all numbers, as Decoder says."""
        self.quantization.fake_quantize(stored, out)

    def decode_rows(self, stored: Array, at: Array, out: Array) -> None:
        """Fails, because scales may depend on all rows."""
        raise AssertionError("can_decode_rows refuses all shapes")

    def can_decode_rows(self, shape: Sequence[int]) -> bool:
        """Whether rows can be rounded alone: never."""
        return False
