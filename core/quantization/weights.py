"""Quantization of weights: symmetric, with one scale for each unit or channel."""

from typing import Any

import numpy as np

from odt.core.model.dequantize import LARGEST
from odt.kernels.geometry.quantize import Quantization, limits
from odt.kernels.rows.opdef import Array

# For few bits, so many scales from this part of the scale of the largest weight to all of it.
TRIALS = 25
LEAST_PART = 0.4
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
    best, least = whole, np.full(whole.size, np.inf, np.float32)
    for part in np.linspace(1, LEAST_PART, TRIALS, dtype=np.float32):
        scale = (whole * part)[:, np.newaxis]
        rounded = np.clip(np.rint(rows / scale), -largest, largest) * scale
        error = np.square(rows - rounded).sum(axis=1)
        best = np.where(error < least, scale[:, 0], best)
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
