"""TFLite's operators on integers: those that only move values, and prescribed scales.

Source: TFLite's 8-bit quantization specification.
"""

from typing import Any

import numpy as np

from odt.kernels.geometry.quantize import Quantization, limits
from odt.kernels.rows.quantized_index import QUANTIZED

LSTM = "UNIDIRECTIONAL_SEQUENCE_LSTM"
CONVERSIONS = ("QUANTIZE", "DEQUANTIZE")
# Operators that move values: their rows of kernels/ops compute integers too.
MOVING = frozenset(op for op, row in QUANTIZED.items() if row.values == "moved")
# Outputs with a prescribed range: smallest and largest value.
PRESCRIBED = {op: row.range for op, row in QUANTIZED.items() if row.range is not None}


def prescribed_quantization(op: str, dtype: np.dtype[Any]) -> Quantization:
    """Returns the quantization of an operator of PRESCRIBED: the scale is a power of two."""
    smallest, _ = PRESCRIBED[op]
    lo, hi = limits(dtype)
    one_sided = dtype.itemsize == 1 and not smallest
    steps, zero_point = (hi - lo + 1, lo) if one_sided else (hi + 1, 0)
    return Quantization(np.array([1 / steps], "<f4"), np.array([zero_point], "<i8"), 0)
