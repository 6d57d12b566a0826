"""Quantization of weights that train: the scales follow the weights.

A channel keeps the scale s of the file while its weights fit, and gets the smallest scale that fits
them otherwise: s = max(s, max |w| / 127) for int8 with zero point 0. With another zero point, the
range from the smallest to the largest number grows on the side where weights exceed it. Training
therefore begins with the integers of the file, and a step cannot change the rounding of all weights
of a channel unless its largest weight grows.

The scales of 2 bits and of blocks stay, and larger weights are clipped: with four integers, one
large weight would round most others to 0. Of the quantizer's 2-bit file of a small CNN, 5 epochs
make 85 % right with scales that stay, 82 % with scales that grow, and 84 % with least squares in
each step or learned scales (LSQ); at a tenth of the learning rate 82, 76, 80 and 83 %.

Weights begin at random places of the intervals that are rounded to their integers (dither). From
the middle, where the file has them, a change below half a step would not count at all, and most
changes of a short training are smaller. With dither, a change by a fraction of a step changes the
integer with the probability of this fraction.
"""

from dataclasses import replace

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.geometry.quantize import (
    Limits,
    Quantization,
    limits,
    quantize,
    round_to_steps,
    steps_to_real,
)
from odt.kernels.rows.opdef import TILE, Array

ROUNDING = 1e-6  # relative rounding errors of scales
DITHER = 0.98  # of a step, so that rounding errors of float32 cannot leave the interval


def unpack(packed: Array, bits: int, out: Array) -> None:
    """Fills an array with packed integers.

    Args:
        packed: bytes, with the first integer in the lowest bits.
        bits: bits of an integer.
        out: flat; int8 or float32.
    """
    count = 8 // bits
    for at in range(0, packed.size, TILE):
        tile = packed[at : at + TILE]
        for k in range(count):
            # Each integer in the upper bits: >> of int8 keeps the sign.
            integers = (tile << (8 - bits * (k + 1))).view(np.int8) >> (8 - bits)
            part = out[at * count + k : (at + TILE) * count : count]
            np.copyto(part, integers[: part.size], casting="unsafe")


@dataclass(frozen=True, slots=True)
class WeightQuantization:
    """Quantization of a weight, for any values of it.

    Attributes:
        first: quantization in the file.
        dtype: type of the integers.
        bits: bits of an integer if the file packs several into a byte: 2 or 4; otherwise 0.
    """

    first: Quantization
    dtype: np.dtype[np.integer]
    bits: int = 0

    @property
    def limits(self) -> Limits:
        """The smallest and the largest integer; int8 leaves out −128 if zero points are 0."""
        if self.bits:
            half = 2 ** (self.bits - 1)
            return (0, 2 * half - 1) if self.dtype.kind == "u" else (-half, half - 1)
        lo, hi = limits(self.dtype)
        return (-hi, hi) if self.is_symmetric else (lo, hi)

    @property
    def is_symmetric(self) -> bool:
        """Whether integers are signed, and zero points are 0."""
        return self.dtype.kind == "i" and not self.first.zero_point.any()

    @property
    def is_plain(self) -> bool:
        """Whether integers have a byte each, and scales belong to units, not to blocks."""
        return self.dtype.itemsize == 1 and not self.first.blocks

    @property
    def is_fixed(self) -> bool:
        """Whether the scales of the file stay, and weights beyond them are clipped."""
        return self.bits == 2 or bool(self.first.blocks)

    def fitted(self, w: Array) -> Quantization:
        """Returns the quantization that fits weights."""
        first, (lo, hi) = self.first, self.limits
        if self.is_fixed:
            return first
        has_one_scale = first.scale.size == 1
        axes = tuple(k for k in range(w.ndim) if has_one_scale or k != first.axis)
        least, most = w.min(axis=axes).reshape(-1), w.max(axis=axes).reshape(-1)
        if self.is_symmetric:
            scale = np.maximum(
                first.scale, np.maximum(least / np.float32(lo), most / np.float32(hi))
            )
            return Quantization(scale.astype("<f4"), first.zero_point, first.axis)
        steps = first.scale.astype(np.float64)
        low = np.minimum(least, (lo - first.zero_point) * steps)
        high = np.maximum(most, (hi - first.zero_point) * steps)
        wider = (high - low) / (hi - lo)
        grows = wider > steps * (1 + ROUNDING)
        zero_point = np.clip(np.rint(lo - low / wider), lo, hi).astype("<i8")
        return Quantization(
            np.where(grows, wider, steps).astype("<f4"),
            np.where(grows, zero_point, first.zero_point),
            first.axis,
        )

    def fake_quantize(self, w: Array, out: Array) -> None:
        """Rounds weights to the numbers that their integers represent.

        Allocates nothing that grows with w, except one value for each channel.
        """
        fitted = self.fitted(w)
        scale, zero_point = fitted.along_axis(w.ndim)
        rounded = fitted.rows(out)
        round_to_steps(fitted.rows(w), scale, zero_point, self.limits, rounded)
        steps_to_real(rounded, scale, zero_point, rounded)

    def dither(self, w: Array, noise: Array) -> None:
        """Moves weights of the file to other places of the intervals that are rounded to them.

        Allocates nothing that grows with w, except one value for each channel.

        Args:
            w: the weights, which are changed.
            noise: numbers from 0 to 1 in the shape of w, which are overwritten.
        """
        scale, zero_point = self.first.along_axis(w.ndim)
        w, noise = self.first.rows(w), self.first.rows(noise)
        lo, hi = self.limits
        round_to_steps(w, scale, zero_point, self.limits, w)
        np.multiply(noise, DITHER, out=noise)
        np.subtract(noise, DITHER / 2, out=noise)
        np.add(w, noise, out=w)
        np.clip(w, lo, hi, out=w)
        steps_to_real(w, scale, zero_point, w)

    def quantize(self, w: Array, least: Array | None = None) -> tuple[Array, Quantization]:
        """Returns the integers that represent weights, and their quantization.

        Scales stay if they grow by rounding errors alone, as those of integers from 127 s / 127.

        Args:
            w: the weights.
            least: smallest scale of each channel, which only symmetric weights observe; None for no
                limit.
        """
        fitted = self.fitted(w)
        first = self.first.scale
        scale = np.where(fitted.scale > first * np.float32(1 + ROUNDING), fitted.scale, first)
        fitted = replace(fitted, scale=scale)
        if least is not None and self.is_symmetric:
            least = np.max(least, keepdims=True) if fitted.scale.size == 1 else least
            fitted = replace(fitted, scale=np.maximum(fitted.scale, least).astype("<f4"))
        return quantize(w, fitted, self.dtype, self.limits), fitted
