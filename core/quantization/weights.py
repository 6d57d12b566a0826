"""Quantization of weights: symmetric, with one scale for each unit or channel."""

from typing import Any

import numpy as np

from odt.core.model.dequantize import LARGEST
from odt.kernels.geometry.quantize import Quantization, limits
from odt.kernels.opdef import Array


def channel_scales(weights: Array, axis: int) -> Array:
    """Returns scales so that the largest weight of each unit is ±127; 1 where all are 0."""
    others = tuple(k for k in range(weights.ndim) if k != axis)
    scale = np.abs(weights).max(axis=others) / LARGEST
    scales: Array = np.where(scale > 0, scale, 1.0).astype(np.float32)
    return scales


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
        fits = np.abs(bias.reshape(-1)) / (float(x.scale[0]) * 2.0**30)
        scale = np.maximum(scale, fits).astype(np.float32)
    return Quantization(scale, np.zeros(scale.size, np.int64), axis)


def bias_steps(bias: Array, scale: Array, dtype: np.dtype[Any]) -> Array:
    """Returns a bias as integers of a scale for each unit."""
    lo, hi = limits(np.dtype(np.int32))
    steps = np.rint(bias.reshape(-1) / scale.astype(np.float64))
    integers: Array = np.clip(steps, lo, hi).astype(dtype).reshape(bias.shape)
    return integers
