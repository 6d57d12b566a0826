"""Quantization of weights: symmetric, with one scale for each unit or channel."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from odt.core.model.bfloat16 import from_bfloat16, to_bfloat16
from odt.core.model.dequantize import LARGEST
from odt.kernels.geometry.quantize import Limits, Quantization, limits
from odt.kernels.rows.opdef import Array

# Scales that are tried for few bits: how many, and the least as a part of the scale with which the
# largest weight is the largest integer.
TRIALS = 25
LEAST_PART, LEAST_PART_INT2 = 0.4, 0.1
INT2: Limits = (-2, 1)
SMALLEST_BLOCK_SCALE = 2.0**-14  # the smallest number that float16 holds with all its bits
MAX_BIAS = 2.0**30  # in integers: half of 32 bits, so that sums of products have room


def channel_scales(weights: Array, axis: int) -> Array:
    """Returns scales so that the largest weight of each unit is ±127; 1 where all are 0."""
    others = tuple(k for k in range(weights.ndim) if k != axis)
    scale = np.abs(weights).max(axis=others) / LARGEST
    scales: Array = np.where(scale > 0, scale, 1.0).astype(np.float32)
    return scales


def least_error_scales(weights: Array, axis: int, largest: int) -> Array:
    """Returns the scales of each unit with the least squared error of rounding and clipping.

    Scales below that of the largest weight are worth it for few bits alone: 8 bits keep it.

    Args:
        weights: real numbers.
        axis: axis of the units.
        largest: largest integer.
    """
    whole = channel_scales(weights, axis) * np.float32(LARGEST / largest)
    if largest == LARGEST:
        return whole
    rows = np.moveaxis(weights, axis, 0).reshape(whole.size, -1)
    parts = np.linspace(1, LEAST_PART, TRIALS, dtype=np.float32)
    return _best_scales(rows, (whole * part for part in parts), (-largest, largest))


def int2_scales(weights: Array, axis: int) -> Array:
    """Returns the scales of each unit with the least squared error of rounding to −2 … 1.

    The errors of most weights are smaller with scales far below that of the largest weight.
    """
    whole = channel_scales(weights, axis) * np.float32(LARGEST)
    rows = np.moveaxis(weights, axis, 0).reshape(whole.size, -1)
    parts = np.linspace(1, LEAST_PART_INT2, TRIALS, dtype=np.float32)
    return _best_scales(rows, (whole * part for part in parts), INT2)


def block_scales(weights: Array, block: int, largest: int) -> Array:
    """Returns the scales of blocks with the least squared error of rounding and clipping.

    They are numbers of bfloat16, to which XNNPACK rounds scales, in the range of float16.

    Args:
        weights: real numbers.
        block: values along the last axis that share a scale.
        largest: largest integer.

    Returns:
        Scales in the shape of weights, with an entry for each block along the last axis.
    """
    rows = weights.reshape(-1, block)
    whole = channel_scales(rows, 0) * np.float32(LARGEST / largest)
    parts = np.linspace(1, LEAST_PART, TRIALS, dtype=np.float32)
    larger = (np.maximum(whole * p, SMALLEST_BLOCK_SCALE) for p in parts)
    scales = (from_bfloat16(to_bfloat16(each)) for each in larger)
    return _best_scales(rows, scales, (-largest, largest)).reshape(*weights.shape[:-1], -1)


def _best_scales(rows: Array, scales: Iterable[Array], limit: Limits) -> Array:
    """Returns for each row the scale with the least squared error; the first of equal ones."""
    best = np.zeros(len(rows), np.float32)
    least = np.full(len(rows), np.inf, np.float32)
    for each in scales:
        scale = each[:, np.newaxis]
        rounded = np.clip(np.rint(rows / scale), *limit) * scale
        error = np.square(rows - rounded).sum(axis=1)
        best = np.where(error < least, each, best)
        least = np.minimum(error, least)
    return best


def weight_quantization(
    weights: Array, axis: int, bias: Array | None, x: Quantization
) -> Quantization:
    """Returns scales for each unit with which its bias fits into 32 bits, too.

    Args:
        weights: real numbers.
        axis: axis of the units.
        bias: one value for each unit, or None.
        x: quantization of the layer's input, whose scale is a factor of the bias's.
    """
    scale = channel_scales(weights, axis)
    if bias is not None:
        least = np.abs(bias.reshape(-1)) / (float(x.scale[0]) * MAX_BIAS)
        scale = np.maximum(scale, least).astype(np.float32)
    return Quantization(scale, np.zeros(scale.size, np.int64), axis)


def bias_steps(bias: Array, scale: Array, dtype: np.dtype[Any]) -> Array:
    """Returns a bias as integers of a scale for each unit."""
    lo, hi = limits(np.dtype(np.int32))
    steps = np.rint(bias.reshape(-1) / scale.astype(np.float64))
    integers: Array = np.clip(steps, lo, hi).astype(dtype).reshape(bias.shape)
    return integers
