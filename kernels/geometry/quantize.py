"""Affine quantization: integers q represent the real numbers scale · (q − zero point).

Real numbers are quantized as q = clip(rint(x · (1 / scale)) + zero point, smallest, largest), where
rint rounds half to even and all arithmetic is float32 (float64 for int32 and int64). NaN becomes
the smallest integer.
Source: TFLite's 8-bit quantization specification; the rounding is that of XNNPACK.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array

Limits = tuple[int, int]
SMALLEST = 1e-7  # scale of a tensor that is always 0


@dataclass(frozen=True, slots=True)
class Quantization:
    """Quantization of a tensor: integers q represent the real numbers scale · (q − zero_point).

    Attributes:
        scale: float32, one value, or one for each entry of the axis, or one for each block.
        zero_point: int64, as many values as scale.
        axis: axis of per-channel scales.
        blocks: entries along each axis that share a scale, such as (1, 32), if scales belong to
            blocks, whose order is that of their first entries; empty otherwise.
    """

    scale: Array
    zero_point: Array
    axis: int
    blocks: tuple[int, ...] = ()

    def rows(self, a: Array) -> Array:
        """Returns a view with a row for each block, with which `along_axis` broadcasts.

        Args:
            a: values in the shape of the tensor, whose blocks are contiguous; without blocks, they
                are returned as they are.
        """
        return a.reshape(-1, math.prod(self.blocks), copy=False) if self.blocks else a

    def units_of(self, shape: Sequence[int]) -> tuple[int, int, int]:
        """Returns the sizes of a tensor as (outer, units, inner), where each unit has a scale."""
        units, size = self.scale.size, math.prod(shape)
        inner = math.prod(shape[self.axis + 1 :]) if units > 1 else size
        if self.blocks:
            inner = math.prod(self.blocks)
        return size // max(units * inner, 1), units, inner

    def along_axis(self, rank: int) -> tuple[Array, Array]:
        """Returns scales and zero points in a shape that broadcasts with a tensor of this rank.

        Those of blocks broadcast with `rows`.
        """
        if self.blocks:
            return self.scale[:, np.newaxis], self.zero_point[:, np.newaxis]
        count = self.scale.size
        shape = tuple(count if k == self.axis and count > 1 else 1 for k in range(rank))
        return self.scale.reshape(shape), self.zero_point.reshape(shape)


def one_scale(scale: float, zero_point: int) -> Quantization:
    """Returns a quantization with one scale for the whole tensor."""
    return Quantization(np.array([scale], "<f4"), np.array([zero_point], "<i8"), 0)


UNSCALED = one_scale(1.0, 0)


@cache
def limits(dtype: np.dtype[Any]) -> Limits:
    """Returns the smallest and the largest integer of a dtype."""
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def range_quantization(least: float, most: float, dtype: np.dtype[Any]) -> Quantization:
    """Returns the quantization of a range that contains 0; symmetric for int16.

    Args:
        least, most: smallest and largest number.
        dtype: type of the integers, all of which are used.
    """
    lo, hi = limits(dtype)
    if dtype.itemsize == 2:
        scale, zero_point = max(-least, most) / hi or SMALLEST, 0
    else:
        scale = (most - least) / (hi - lo) or SMALLEST
        zero_point = min(max(round(lo - least / scale), lo), hi)
    return one_scale(scale, zero_point)


def fake_quant_numbers(scale: float, lo: int, hi: int) -> Array:
    """Returns the numbers that FAKE_QUANT reads: 1 / scale, scale and the limits, (4,) float32.

    Args:
        scale: the scale.
        lo, hi: the limits of the integers minus their zero point.
    """
    return np.array([1 / scale, scale, lo, hi], np.float32)


def round_to_steps(x: Array, scale: Array, zero_point: Array, limits: Limits, out: Array) -> None:
    """Computes the quantized values of x as floats; allocates nothing that grows with x.

    Args:
        x: float32 or float64.
        scale, zero_point: broadcast with x; `Quantization.along_axis` returns them.
        limits: smallest and largest integer.
        out: shape and dtype of x; may be x.
    """
    inverse = 1 / scale.astype(x.dtype)
    zero = zero_point.astype(x.dtype)
    np.multiply(x, inverse, out=out)
    np.rint(out, out=out)
    np.add(out, zero, out=out)
    np.fmax(out, limits[0], out=out)
    np.fmin(out, limits[1], out=out)


def steps_to_real(q: Array, scale: Array, zero_point: Array, out: Array) -> None:
    """Computes scale · (q − zero_point); allocates nothing that grows with q.

    Args:
        q: integers, also as floats.
        scale, zero_point: broadcast with q.
        out: float32 or float64, in the shape of q; may be q.
    """
    np.subtract(q, zero_point.astype(out.dtype), out=out, casting="unsafe")
    np.multiply(out, scale.astype(out.dtype), out=out)


def quantize(
    x: Array, quantization: Quantization, dtype: np.dtype[Any], limit: Limits | None = None
) -> Array:
    """Returns the integers that represent real numbers best.

    Args:
        x: real numbers.
        quantization: scales and zero points.
        dtype: integer type of the result.
        limit: smallest and largest integer; None for those of the type.
    """
    wide = np.float32 if dtype.itemsize <= 2 else np.float64
    steps: Array = x.astype(wide, order="C")
    lo, hi = limits(dtype) if limit is None else limit
    if dtype.itemsize == 8:
        hi = min(hi, 2**63 - 1024)  # the largest float64 that int64 holds
    table = quantization.rows(steps)
    round_to_steps(table, *quantization.along_axis(x.ndim), (lo, hi), table)
    return steps.astype(dtype)


def dequantize(q: Array, quantization: Quantization) -> Array:
    """Returns the real numbers that integers represent, in float32."""
    real: Array = np.empty(q.shape, np.float32)
    steps_to_real(quantization.rows(q), *quantization.along_axis(q.ndim), quantization.rows(real))
    return real


def sign_bit(dtype: np.dtype[Any]) -> int:
    """Returns the sign bit of the bytes of a dtype: 0x80 for int8, 0 for types without one."""
    return 0x80 if dtype == np.int8 else 0
