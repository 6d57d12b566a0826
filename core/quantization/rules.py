"""Schemes of quantization: the types of a model, and the operators that compute integers.

Source: TFLite's 8-bit quantization specification.
"""

from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.rows.quantized_index import QUANTIZED

# Outputs have the quantization of the first input that is an activation.
SAME = frozenset(op for op, row in QUANTIZED.items() if row.same == "output")
# All inputs and the output have one quantization.
ALL_SAME = frozenset(op for op, row in QUANTIZED.items() if row.same == "all")
# Operators that LiteRT computes with activations and weights of 8 bits.
INT8 = frozenset(op for op, row in QUANTIZED.items() if row.int8)
# Operators that LiteRT computes with activations of 16 and weights of 8 bits.
INT16 = frozenset(op for op, row in QUANTIZED.items() if row.int16)


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
