"""What operators' rows hold of quantized tensors, readable without a row.

Written by tools/write_row_index.py from the rows.
"""

from odt.kernels.rows.quantizeddef import Layer, QuantizedDef

# Operator → `quantized` of its row.
QUANTIZED: dict[str, QuantizedDef] = {
    "ABS": QuantizedDef(versions={"INT8": 2, "UINT8": 2, "INT16": 3}),
    "ADD": QuantizedDef(
        versions={"INT8": 2, "INT16": 3},
        int8=True,
        int16=True,
        needs_scale=True,
        implies_activation=True,
    ),
    "ARG_MAX": QuantizedDef(versions={"INT8": 2}),
    "ARG_MIN": QuantizedDef(versions={"INT8": 2}),
    "AVERAGE_POOL_2D": QuantizedDef(
        versions={"INT8": 2, "INT16": 3},
        int8=True,
        int16=True,
        needs_scale=True,
        same="output",
        values="within",
        one_scale=True,
    ),
    "BATCH_MATMUL": QuantizedDef(versions={"INT8": 2, "INT16": 3}, int8=True, int16=True),
    "BATCH_TO_SPACE_ND": QuantizedDef(
        versions={"INT8": 2, "INT16": 4},
        int8=True,
        same="output",
        values="kept",
        checks_scales=True,
    ),
    "BROADCAST_TO": QuantizedDef(versions={"INT8": 3, "INT16": 3}, values="moved"),
    "CONCATENATION": QuantizedDef(
        versions={"INT8": 2, "INT16": 3},
        int8=True,
        int16=True,
        same="all",
        values="moved",
        checks_scales=True,
    ),
    "CONV_2D": QuantizedDef(
        versions={"INT8": 3, "INT16": 4},
        int8=True,
        int16=True,
        hybrid=("int8", "int4"),
        layers=(Layer(x=0, w=1, b=2, axis=0),),
        needs_scale=True,
        implies_activation=True,
        pads_input=True,
    ),
    "CUMSUM": QuantizedDef(refused=True),
    "DEPTHWISE_CONV_2D": QuantizedDef(
        versions={"INT8": 3, "INT16": 5},
        int8=True,
        int16=True,
        hybrid=("int8",),
        layers=(Layer(x=0, w=1, b=2, axis=3),),
        needs_scale=True,
        implies_activation=True,
        pads_input=True,
    ),
    "DEPTH_TO_SPACE": QuantizedDef(versions={"INT8": 2}, int8=True, same="output", values="moved"),
    "ELU": QuantizedDef(int8=True),
    "EMBEDDING_LOOKUP": QuantizedDef(values="moved"),
    "EQUAL": QuantizedDef(versions={"INT8": 2, "INT16": 4}),
    "EXP": QuantizedDef(versions={"INT8": 2, "INT16": 2}),
    "EXPAND_DIMS": QuantizedDef(
        int8=True, int16=True, same="output", values="moved", checks_scales=True
    ),
    "FLOOR_DIV": QuantizedDef(versions={"INT8": 3, "INT16": 3}),
    "FLOOR_MOD": QuantizedDef(versions={"INT8": 2, "INT16": 2}),
    "FULLY_CONNECTED": QuantizedDef(
        versions={"INT8": 4, "INT16": 7},
        int8=True,
        int16=True,
        hybrid=("int8", "int4"),
        layers=(Layer(x=0, w=1, b=2, axis=0),),
        needs_scale=True,
        implies_activation=True,
    ),
    "GATHER": QuantizedDef(
        versions={"INT8": 2, "INT16": 4, "INT4": 7}, int8=True, same="output", values="moved"
    ),
    "GATHER_ND": QuantizedDef(versions={"INT16": 3}, values="moved"),
    "GELU": QuantizedDef(versions={"INT8": 2, "UINT8": 2}),
    "GREATER": QuantizedDef(versions={"INT8": 2}),
    "GREATER_EQUAL": QuantizedDef(versions={"INT8": 2, "INT16": 3}),
    "HARD_SWISH": QuantizedDef(int8=True, bytes_only=True),
    "L2_NORMALIZATION": QuantizedDef(
        versions={"INT8": 2}, int8=True, range=(-1.0, 1.0), checks_scales=True
    ),
    "LEAKY_RELU": QuantizedDef(versions={"INT16": 2}, int8=True, int16=True, bytes_only=True),
    "LESS": QuantizedDef(versions={"INT8": 2, "INT16": 3}),
    "LESS_EQUAL": QuantizedDef(versions={"INT8": 2}),
    "LOG": QuantizedDef(versions={"INT8": 2, "INT16": 2}),
    "LOGISTIC": QuantizedDef(
        versions={"INT8": 2, "INT16": 3},
        int8=True,
        int16=True,
        needs_scale=True,
        range=(0.0, 1.0),
        checks_scales=True,
    ),
    "LOG_SOFTMAX": QuantizedDef(versions={"INT8": 2}),
    "MAXIMUM": QuantizedDef(
        versions={"INT8": 2, "INT16": 4}, int8=True, int16=True, same="all", values="moved"
    ),
    "MAX_POOL_2D": QuantizedDef(
        versions={"INT8": 2, "INT16": 3}, int8=True, int16=True, same="output", values="moved"
    ),
    "MEAN": QuantizedDef(versions={"INT8": 2, "INT16": 3}, int8=True, int16=True, bytes_only=True),
    "MINIMUM": QuantizedDef(
        versions={"INT8": 2, "INT16": 4}, int8=True, int16=True, same="all", values="moved"
    ),
    "MIRROR_PAD": QuantizedDef(
        versions={"INT8": 2, "INT16": 3},
        int8=True,
        same="output",
        values="moved",
        checks_scales=True,
    ),
    "MUL": QuantizedDef(
        versions={"INT8": 2, "INT16": 4},
        int8=True,
        int16=True,
        needs_scale=True,
        implies_activation=True,
    ),
    "NOT_EQUAL": QuantizedDef(versions={"INT8": 2}),
    "PACK": QuantizedDef(
        versions={"INT8": 2, "INT16": 3},
        int8=True,
        int16=True,
        same="all",
        values="moved",
        checks_scales=True,
    ),
    "PAD": QuantizedDef(
        versions={"INT8": 2, "INT16": 3}, int8=True, int16=True, same="output", values="kept"
    ),
    "PADV2": QuantizedDef(versions={"INT8": 2, "INT16": 3}, values="within"),
    "PRELU": QuantizedDef(int8=True),
    "REDUCE_MAX": QuantizedDef(
        versions={"INT8": 2, "INT16": 3},
        int8=True,
        same="output",
        values="moved",
        checks_scales=True,
    ),
    "REDUCE_MIN": QuantizedDef(
        versions={"INT8": 2, "INT16": 3}, values="moved", checks_scales=True
    ),
    "REDUCE_PROD": QuantizedDef(versions={"INT8": 2, "INT16": 2}),
    "RELU": QuantizedDef(versions={"INT8": 2, "UINT8": 2, "INT16": 3}, int8=True, int16=True),
    "RELU6": QuantizedDef(versions={"INT8": 2, "INT16": 3}, int8=True, int16=True),
    "RELU_N1_TO_1": QuantizedDef(int8=True),
    "RESHAPE": QuantizedDef(int8=True, int16=True, same="output", values="moved"),
    "RESIZE_BILINEAR": QuantizedDef(
        versions={"INT8": 2, "INT16": 4},
        int8=True,
        int16=True,
        same="output",
        values="within",
        one_scale=True,
    ),
    "RESIZE_NEAREST_NEIGHBOR": QuantizedDef(
        versions={"INT8": 2, "INT16": 4}, int8=True, int16=True, same="output", values="within"
    ),
    "REVERSE_V2": QuantizedDef(versions={"INT8": 3}, values="moved"),
    "RSQRT": QuantizedDef(versions={"INT8": 2, "INT16": 3}),
    "SELECT": QuantizedDef(versions={"INT8": 2}),
    "SIGN": QuantizedDef(refused=True),
    "SLICE": QuantizedDef(
        versions={"INT8": 2, "INT16": 4}, int8=True, int16=True, same="output", values="moved"
    ),
    "SOFTMAX": QuantizedDef(
        versions={"INT8": 2, "INT16": 3},
        int8=True,
        int16=True,
        needs_scale=True,
        range=(0.0, 1.0),
        checks_scales=True,
    ),
    "SPACE_TO_BATCH_ND": QuantizedDef(
        versions={"INT8": 2, "INT16": 4},
        int8=True,
        same="output",
        values="kept",
        checks_scales=True,
    ),
    "SPACE_TO_DEPTH": QuantizedDef(versions={"INT8": 2}, int8=True, same="output", values="moved"),
    "SPLIT": QuantizedDef(
        versions={"INT8": 2, "INT16": 4}, int8=True, int16=True, same="output", values="moved"
    ),
    "SPLIT_V": QuantizedDef(versions={"INT8": 2}, int8=True, same="output", values="moved"),
    "SQUARE": QuantizedDef(refused=True),
    "SQUARED_DIFFERENCE": QuantizedDef(versions={"INT8": 2}, int8=True),
    "SQUEEZE": QuantizedDef(int8=True, int16=True, same="output", values="moved"),
    "STRIDED_SLICE": QuantizedDef(
        versions={"INT8": 2}, int8=True, int16=True, same="output", values="moved"
    ),
    "SUB": QuantizedDef(
        versions={"INT8": 2, "INT16": 5},
        int8=True,
        int16=True,
        needs_scale=True,
        implies_activation=True,
    ),
    "SUM": QuantizedDef(versions={"INT8": 2}, int8=True),
    "TANH": QuantizedDef(
        versions={"INT8": 2, "INT16": 3}, int8=True, int16=True, range=(-1.0, 1.0)
    ),
    "TILE": QuantizedDef(versions={"INT8": 3}, int8=True, same="output", values="moved"),
    "TOPK_V2": QuantizedDef(versions={"INT8": 2, "INT16": 3}),
    "TRANSPOSE": QuantizedDef(
        versions={"INT8": 2, "INT16": 5, "INT4": 7},
        int8=True,
        int16=True,
        same="output",
        values="moved",
    ),
    "TRANSPOSE_CONV": QuantizedDef(
        versions={"INT8": 2, "INT16": 4},
        int8=True,
        int16=True,
        layers=(Layer(x=2, w=1, b=3, axis=0),),
        needs_scale=True,
    ),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": QuantizedDef(
        layers=(
            Layer(x=0, w=1, b=12, axis=0),
            Layer(x=0, w=2, b=13, axis=0),
            Layer(x=0, w=3, b=14, axis=0),
            Layer(x=0, w=4, b=15, axis=0),
        ),
        absent={
            17: "a bias of the projection",
            20: "layer normalization",
            21: "layer normalization",
            22: "layer normalization",
            23: "layer normalization",
        },
    ),
    "UNPACK": QuantizedDef(
        versions={"INT8": 2, "UINT8": 2, "INT16": 4},
        int8=True,
        same="output",
        values="moved",
        checks_scales=True,
    ),
}
