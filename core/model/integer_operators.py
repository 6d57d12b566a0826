"""TFLite's operators on integers: those that only move values, and prescribed scales.

Source: TFLite's 8-bit quantization specification.
"""

from typing import Any

import numpy as np

from odt.kernels.geometry.quantize import Quantization, limits

LSTM = "UNIDIRECTIONAL_SEQUENCE_LSTM"
CONVERSIONS = ("QUANTIZE", "DEQUANTIZE")
# Operators that move values: their rows of kernels/ops compute integers too.
MOVING = frozenset(
    (
        *("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "SLICE", "STRIDED_SLICE", "GATHER"),
        *("GATHER_ND", "SPLIT", "SPLIT_V", "PACK", "UNPACK", "CONCATENATION", "TILE"),
        *("REVERSE_V2", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "BROADCAST_TO", "MIRROR_PAD"),
        *("MAXIMUM", "MINIMUM", "REDUCE_MAX", "REDUCE_MIN", "EMBEDDING_LOOKUP"),
    )
)
# Outputs with a prescribed range: smallest and largest value.
PRESCRIBED = {
    "SOFTMAX": (0.0, 1.0),
    "LOGISTIC": (0.0, 1.0),
    "TANH": (-1.0, 1.0),
    "L2_NORMALIZATION": (-1.0, 1.0),
}


def prescribed_quantization(op: str, dtype: np.dtype[Any]) -> Quantization:
    """Returns the quantization of an operator of PRESCRIBED: the scale is a power of two."""
    smallest, _ = PRESCRIBED[op]
    lo, hi = limits(dtype)
    one_sided = dtype.itemsize == 1 and not smallest
    steps, zero_point = (hi - lo + 1, lo) if one_sided else (hi + 1, 0)
    return Quantization(np.array([1 / steps], "<f4"), np.array([zero_point], "<i8"), 0)
