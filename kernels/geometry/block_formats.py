"""Formats of weights in blocks with a scale in each: GGML's Q4_0, Q4_1 and Q8_0.

A block begins with the scale d, a float16. In Q4_1 the smallest value m follows, a float16 too.
Then come the integers q: of 4 bits, the low halves of the bytes are the first integers of the block
and the high halves the others. A value is d (q − zero) + m; integers of 8 bits are signed.

Blocks are along the last axis, whose size is a multiple of theirs. Source: the formats of GGML,
which Circle's schema names GGML_Q4_0, GGML_Q4_1 and GGML_Q8_0.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.rows.opdef import TILE, Array

HALF = np.dtype("<f2")
LOW = np.uint8(15)


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """Decoder of weights in blocks.

    Attributes:
        bits: bits of an integer, 4 or 8.
        zero: integer that stands for 0, or for m.
        has_minimum: whether blocks have a smallest value m.
        values: values of a block.
    """

    bits: int
    zero: int = 0
    has_minimum: bool = False
    values: int = 32

    @property
    def header(self) -> int:
        """Bytes before the integers of a block."""
        return HALF.itemsize * (1 + self.has_minimum)

    @property
    def nbytes(self) -> int:
        """Bytes of a block."""
        return self.header + self.values * self.bits // 8

    def stored_nbytes(self, shape: Sequence[int]) -> int | None:
        """Returns the bytes of a weight; None if no blocks fill its last axis."""
        if not shape or shape[-1] % self.values:
            return None
        return prod(shape) // self.values * self.nbytes

    def decode(self, stored: Array, out: Array) -> None:
        """Computes all real numbers, as Decoder says."""
        blocks, values = stored.reshape(-1, self.nbytes), out.reshape(-1, self.values, copy=False)
        count = TILE // self.values
        for at in range(0, len(blocks), count):
            self._decode(blocks[at : at + count], values[at : at + count])

    def decode_rows(self, stored: Array, at: Array, out: Array) -> None:
        """Computes rows of a table, as Decoder says."""
        rows = stored.reshape(-1, out.shape[1] // self.values * self.nbytes)
        for row, values in zip(at, out, strict=True):
            self.decode(rows[row], values)

    def can_decode_rows(self, shape: Sequence[int]) -> bool:
        """Whether rows can be decoded alone, as Decoder says."""
        return len(shape) > 1

    def _decode(self, blocks: Array, values: Array) -> None:
        scales = np.ascontiguousarray(blocks[:, : self.header]).view(HALF).astype(np.float32)
        integers = blocks[:, self.header :]
        if self.bits == 4:
            first = self.values // 2
            np.copyto(values[:, :first], integers & LOW)
            np.copyto(values[:, first:], integers >> 4)
        else:
            np.copyto(values, integers.view(np.int8))
        np.subtract(values, self.zero, out=values)
        np.multiply(values, scales[:, :1], out=values)
        if self.has_minimum:
            np.add(values, scales[:, 1:], out=values)


# By name of the type in Circle's schema.
BLOCK_FORMATS = {
    "GGML_Q4_0": BlockFormat(bits=4, zero=8),
    "GGML_Q4_1": BlockFormat(bits=4, has_minimum=True),
    "GGML_Q8_0": BlockFormat(bits=8),
}
