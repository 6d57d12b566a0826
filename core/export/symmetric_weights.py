"""Weights of new layers as symmetric integers."""

from typing import Any

import numpy as np

from odt.core.model.dequantize import LARGEST
from odt.kernels.geometry.quantize import SMALLEST, Quantization, quantize
from odt.kernels.rows.opdef import Array

UINT8_ZERO = 128  # zero point of symmetric uint8 weights


def symmetric_weights(
    values: Array, dtype: np.dtype[Any], *, per_unit: bool
) -> tuple[Array, Quantization]:
    """Returns weights as integers whose scales fit the largest absolute values.

    Args:
        values: float32 or float64 weights (O, ...).
        dtype: int8 or uint8.
        per_unit: whether each unit or output channel has a scale of its own.
    """
    axes = tuple(range(1, values.ndim)) if per_unit else None
    scale = np.reshape(abs(values).max(axis=axes) / LARGEST, -1).astype("<f4")
    scale[scale == 0] = scale.max() or SMALLEST  # any scale represents 0, and biases need a range
    zero = UINT8_ZERO if dtype == np.uint8 else 0
    quantization = Quantization(scale, np.full(scale.shape, zero, "<i8"), 0)
    return quantize(values, quantization, dtype, (zero - LARGEST, zero + LARGEST)), quantization
