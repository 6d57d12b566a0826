"""How TFLite's operators compute integers: quantization of outputs, operator versions.

Source: TFLite's 8-bit quantization specification; the versions are those of its operator registry.
"""

from odt.dataclass import dataclass

# Constant operands with a role of their own: position of weights and bias, and the axis of the
# weights that has one scale for each entry.
WEIGHTS = {
    "CONV_2D": (1, 2, 0),
    "DEPTHWISE_CONV_2D": (1, 2, 3),
    "FULLY_CONNECTED": (1, 2, 0),
    "TRANSPOSE_CONV": (1, 3, 0),
}
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
# Outputs with a fixed range: smallest and largest value.
FIXED = {
    "SOFTMAX": (0.0, 1.0),
    "LOGISTIC": (0.0, 1.0),
    "TANH": (-1.0, 1.0),
    "L2_NORMALIZATION": (-1.0, 1.0),
}
FREE = frozenset(
    (
        *("ADD", "SUB", "MUL", "MEAN", "SUM", "LEAKY_RELU", "PRELU", "HARD_SWISH", "ELU"),
        *("RELU", "RELU6", "RELU_N1_TO_1", "BATCH_MATMUL", "SQUARED_DIFFERENCE"),
    )
)
INT8 = frozenset((*WEIGHTS, *SAME, *ALL_SAME, *FIXED, *FREE))
# Operators that LiteRT computes with activations of 16 and weights of 8 bits.
INT16 = frozenset(
    (
        *(*WEIGHTS, "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "SLICE", "STRIDED_SLICE"),
        *("SPLIT", "MAX_POOL_2D", "AVERAGE_POOL_2D", "PAD", "CONCATENATION", "PACK", "MAXIMUM"),
        *("MINIMUM", "SOFTMAX", "LOGISTIC", "TANH", "ADD", "SUB", "MUL", "MEAN", "LEAKY_RELU"),
        *("RELU", "RELU6", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "BATCH_MATMUL"),
    )
)
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


@dataclass(frozen=True, slots=True)
class Scheme:
    """Types of a quantized model.

    Attributes:
        activations: int8 or int16.
        operators: operators that compute integers.
        bias: type of biases.
        column: position of the type in VERSIONS.
    """

    activations: str
    operators: frozenset[str]
    bias: str
    column: int

    def version(self, op: str) -> int:
        """Version of an operator on these types."""
        return VERSIONS.get(op, (2, 3))[self.column]


SCHEMES = {
    "int8": Scheme("int8", INT8, "int32", 0),
    "int16x8": Scheme("int16", INT16, "int64", 1),
}
