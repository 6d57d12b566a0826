"""Schemes of quantization: the types of a model, and the operators that compute integers.

Source: TFLite's 8-bit quantization specification.
"""

from typing import Any

import numpy as np

from odt.core.model.integer_operators import PRESCRIBED
from odt.core.model.quantization_rules import LAYERS
from odt.dataclass import dataclass

# Outputs have the quantization of the first input that is an activation.
SAME = frozenset(
    (
        *("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "SLICE", "STRIDED_SLICE", "GATHER"),
        *("SPLIT", "SPLIT_V", "UNPACK", "MAX_POOL_2D", "AVERAGE_POOL_2D", "PAD", "MIRROR_PAD"),
        *("TILE", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "RESIZE_BILINEAR"),
        *("RESIZE_NEAREST_NEIGHBOR", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND", "REDUCE_MAX"),
    )
)
# All inputs and the output have one quantization.
ALL_SAME = frozenset(("CONCATENATION", "PACK", "MAXIMUM", "MINIMUM"))
FREE = frozenset(
    (
        *("ADD", "SUB", "MUL", "MEAN", "SUM", "LEAKY_RELU", "PRELU", "HARD_SWISH", "ELU"),
        *("RELU", "RELU6", "RELU_N1_TO_1", "BATCH_MATMUL", "SQUARED_DIFFERENCE"),
    )
)
INT8 = frozenset((*LAYERS, *SAME, *ALL_SAME, *PRESCRIBED, *FREE))
# Operators that LiteRT computes with activations of 16 and weights of 8 bits.
INT16 = frozenset(
    (
        *(*LAYERS, "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "SLICE", "STRIDED_SLICE"),
        *("SPLIT", "MAX_POOL_2D", "AVERAGE_POOL_2D", "PAD", "CONCATENATION", "PACK", "MAXIMUM"),
        *("MINIMUM", "SOFTMAX", "LOGISTIC", "TANH", "ADD", "SUB", "MUL", "MEAN", "LEAKY_RELU"),
        *("RELU", "RELU6", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "BATCH_MATMUL"),
    )
)


@dataclass(frozen=True, slots=True)
class Scheme:
    """Types of a quantized model.

    Attributes:
        activations: type of activations, int8 or int16; weights are int8.
        operators: operators that compute integers.
        bias: type of biases.
    """

    activations: np.dtype[Any]
    operators: frozenset[str]
    bias: np.dtype[Any]


SCHEMES = {
    "int8": Scheme(np.dtype(np.int8), INT8, np.dtype(np.int32)),
    "int16x8": Scheme(np.dtype(np.int16), INT16, np.dtype(np.int64)),
}
