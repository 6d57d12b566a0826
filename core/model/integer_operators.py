"""TFLite's operators on integers: those that only move values, prescribed scales, versions.

Source: TFLite's 8-bit quantization specification; the versions are those of its operator registry.
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
# Version of an operator whose tensors are int8, int16; others have 2 and 3 at least.
VERSIONS = {
    "CONV_2D": (3, 4),
    "DEPTHWISE_CONV_2D": (3, 5),
    "FULLY_CONNECTED": (4, 7),
    "TRANSPOSE_CONV": (3, 4),
    "BATCH_MATMUL": (2, 3),
    "MUL": (2, 4),
    "RESHAPE": (1, 1),
    "SQUEEZE": (1, 1),
    "EXPAND_DIMS": (1, 1),
    "PRELU": (1, 1),
    "HARD_SWISH": (1, 1),
    "MIRROR_PAD": (1, 1),
    "TILE": (1, 1),
    "TRANSPOSE": (2, 4),
    "SLICE": (2, 4),
    "STRIDED_SLICE": (2, 4),
    "SPLIT": (2, 4),
    "PACK": (2, 3),
    "MAXIMUM": (2, 3),
    "MINIMUM": (2, 3),
    "ELU": (1, 1),
    "SQUARED_DIFFERENCE": (2, 2),
    "QUANTIZE": (1, 2),
    "DEQUANTIZE": (2, 3),
}


def operator_version(op: str, dtype: np.dtype[Any]) -> int:
    """Returns the version of an operator on activations of a type."""
    return VERSIONS.get(op, (2, 3))[dtype.itemsize - 1]


def prescribed_quantization(op: str, dtype: np.dtype[Any]) -> Quantization:
    """Returns the quantization of an operator of PRESCRIBED: the scale is a power of two."""
    smallest, _ = PRESCRIBED[op]
    lo, hi = limits(dtype)
    one_sided = dtype.itemsize == 1 and not smallest
    steps, zero_point = (hi - lo + 1, lo) if one_sided else (hi + 1, 0)
    return Quantization(np.array([1 / steps], "<f4"), np.array([zero_point], "<i8"), 0)
