"""Versions of operators: the least that a runtime must know to compute a file as it is meant.

A runtime refuses a file whose operators have versions that it does not know. A version that is too
low is worse: runtimes of 2024 read the first scale alone of FULLY_CONNECTED weights that have one
for each unit. The rules are those of TFLite's `op_version`, which its converter follows. But
CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED on int16 have the versions of its operator registry
(4, 5, 7), because the rule looks for int16 weights, which no converter writes.

Sources: TFLite's tools/versioning/op_version.cc and kernels/register.cc.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from odt.core.formats.flatbuffer.operator_options import (
    default_options,
    operator_code,
    operator_name,
    tensor_type,
)
from odt.dataclass import dataclass
from odt.kernels.rows.quantized_index import QUANTIZED


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor of an operator, as far as a version depends on it.

    Attributes:
        dtype: name of its TensorType.
        shape: its shape.
        scales: scales of its quantization; empty for none.
        sparse: whether it is a sparse constant.
    """

    dtype: str
    shape: tuple[int, ...]
    scales: tuple[float, ...] = ()
    sparse: bool = False


NOTHING = Operand("", ())
# Versions by the type of the first input, beside those of integers in the operators' rows
# (kernels/rows/quantizeddef.py); those of other types are 1.
BY_TYPE: Mapping[str, Mapping[str, int]] = {
    "ABS": {"INT32": 5},
    "ADD": {"INT64": 4},
    "ARG_MAX": {"BOOL": 3},
    "ARG_MIN": {"BOOL": 3},
    "CONCATENATION": {"UINT32": 4},
    "DEQUANTIZE": {"INT8": 2, "INT16": 3, "FLOAT16": 3, "INT4": 6},
    "EQUAL": {"STRING": 3},
    "FLOOR_DIV": {"FLOAT32": 2},
    "GATHER": {"BOOL": 3},
    "GATHER_ND": {"STRING": 2, "BOOL": 5},
    "MUL": {"INT64": 5, "COMPLEX64": 6, "UINT32": 7},
    "NOT_EQUAL": {"STRING": 3},
    "PACK": {"UINT32": 4},
    "RANGE": {"INT64": 2},
    "REVERSE_V2": {"BOOL": 2},
    "SELECT": {"UINT32": 4},
    "SELECT_V2": {"UINT32": 2},
    "SIGN": {"INT32": 2},
    "SLICE": {"STRING": 3, "UINT32": 6},
    "SPLIT": {"INT32": 3},
    "SQUEEZE": {"STRING": 2},
    "STRIDED_SLICE": {"BOOL": 3, "STRING": 5, "UINT32": 7},
    "SUB": {"INT64": 4},
    "TILE": {"STRING": 2},
    "TRANSPOSE": {"BOOL": 3},
    "UNPACK": {"BOOL": 3},
}
# Least versions for tensors of more dimensions than the first versions know.
BY_RANK = {
    "TRANSPOSE": ((5, 4), (6, 6)),
    "SLICE": ((5, 5),),
    "STRIDED_SLICE": ((5, 4),),
    "PAD": ((5, 4),),
    "PADV2": ((5, 4),),
}
BY_BROADCASTING = {"MAXIMUM": 3, "MINIMUM": 3, "SUB": 3, "DIV": 2}  # beyond 4 dimensions
RNNS = ("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN")
LSTM_KERNEL_BASIC = 1
SHUFFLED = 1  # a layout of weights
# Versions of CAST, and the types that need them.
CASTS = (
    (7, ("BFLOAT16",)),
    (5, ("FLOAT64", "FLOAT16")),
    (4, ("UINT16",)),
    (3, ("INT8",)),
    (2, ("UINT32",)),
)
# FULLY_CONNECTED on real numbers with int4 weights of one scale for each unit. The rule knows no
# such version, and runtimes below this one read the first scale alone.
PER_CHANNEL = 12


def operator_version(
    op: str, inputs: Sequence[Operand], outputs: Sequence[Operand], options: Mapping[str, Any]
) -> int:
    """Returns the version that an operator must have at least.

    Args:
        op: name in the schema.
        inputs, outputs: its tensors; NOTHING for those that are absent.
        options: its options, with the schema's defaults.
    """
    padded = (*inputs, *[NOTHING] * 4)  # rules read up to four inputs
    x = padded[1] if op == "SPLIT" else padded[0]
    if op in LAYER_RULES:
        return LAYER_RULES[op](padded, len(inputs), options)
    if op == "CAST":
        types = {x.dtype, *(y.dtype for y in outputs)}
        return next((version for version, kinds in CASTS if types.intersection(kinds)), 1)
    version = _type_version(op, x)
    rank = len(x.shape)
    version = max([version, *(least for n, least in BY_RANK.get(op, ()) if rank >= n)])
    broadcasts = padded[0].shape != padded[1].shape and max(len(i.shape) for i in padded) > 4
    if broadcasts:
        version = max(version, BY_BROADCASTING.get(op, 1))
    rule = OTHER_RULES.get(op)
    return max(version, rule(padded, outputs, options)) if rule else version


def _type_version(op: str, x: Operand) -> int:
    """The version that an operator needs for the type of an input."""
    integers = QUANTIZED[op].versions if op in QUANTIZED else {}
    return integers.get(x.dtype) or BY_TYPE.get(op, {}).get(x.dtype, 1)


def _mul(inputs: Sequence[Operand], outputs: Sequence[Operand], options: Mapping[str, Any]) -> int:
    """Version 3 of MUL knows products of scales above that of the output."""
    x, second = inputs[:2]
    if x.dtype == "INT16" and not x.scales:
        return 7
    scales = [t.scales[0] for t in (x, second, *outputs[:1]) if t.scales and t.scales[0]]
    if x.dtype in ("INT8", "UINT8") and len(scales) == 3:
        return 3 if scales[0] * scales[1] / scales[2] >= 1 else 1
    return 1


def _quantize(
    inputs: Sequence[Operand], outputs: Sequence[Operand], options: Mapping[str, Any]
) -> int:
    if "INT4" in {t.dtype for t in (*inputs[:1], *outputs)}:
        return 4
    if any(len(y.scales) > 1 for y in outputs):
        return 3
    return 2 if any(y.dtype == "INT16" for y in outputs) else 1


def _gather(
    inputs: Sequence[Operand], outputs: Sequence[Operand], options: Mapping[str, Any]
) -> int:
    if inputs[1].dtype == "INT16":
        return 6
    return 5 if options.get("batch_dims") else 1


def _strided_slice(
    inputs: Sequence[Operand], outputs: Sequence[Operand], options: Mapping[str, Any]
) -> int:
    if options.get("offset"):
        return 8
    return 6 if options.get("ellipsis_mask") or options.get("new_axis_mask") else 1


FILLED = {"FLOAT16": 4, "INT8": 3, "INT16": 3, "BOOL": 2, "STRING": 2}
# Least versions for options, and for other tensors than the first.
OTHER_RULES: Mapping[
    str, Callable[[Sequence[Operand], Sequence[Operand], Mapping[str, Any]], int]
] = {
    "MUL": _mul,
    "QUANTIZE": _quantize,
    "GATHER": _gather,
    "STRIDED_SLICE": _strided_slice,
    "BROADCAST_TO": lambda x, y, o: 2,
    "GATHER_ND": lambda x, y, o: 4 if x[1].dtype == "INT16" else 1,
    "RESIZE_BILINEAR": lambda x, y, o: 3 if o.get("half_pixel_centers") else 1,
    "RESIZE_NEAREST_NEIGHBOR": lambda x, y, o: (
        3 if o.get("half_pixel_centers") or o.get("align_corners") else 1
    ),
    "SPACE_TO_BATCH_ND": lambda x, y, o: 3 if len(x[0].shape) != 4 else 1,
    "BATCH_TO_SPACE_ND": lambda x, y, o: 3 if len(x[0].shape) != 4 else 1,
    "FAKE_QUANT": lambda x, y, o: 2 if o.get("narrow_range") else 1,
    "FILL": lambda x, y, o: FILLED.get(x[1].dtype, 1),
    "SELECT": lambda x, y, o: 3 if any(len(t.shape) == 5 for t in x[:3]) else 1,
    "WHERE": lambda x, y, o: 1 if x[0].dtype == "BOOL" else 2,
    "DEQUANTIZE": lambda x, y, o: 5 if x[0].dtype == "INT8" and len(x[0].scales) > 1 else 1,
}


def _is_hybrid(x: Operand, w: Operand) -> bool:
    """Whether an operator on real numbers reads weights of integers."""
    return x.dtype == "FLOAT32" and w.dtype in ("INT8", "INT4", "INT2")


def _has_channels(w: Operand, axis: int) -> bool:
    """Whether weights have a scale for each entry of an axis."""
    return len(w.scales) > 1 and bool(w.shape) and len(w.scales) == w.shape[axis]


def _conv_2d(inputs: Sequence[Operand], count: int, options: Mapping[str, Any]) -> int:
    """Version by type, weights, groups (filters of fewer channels than x), and scales."""
    x, w = inputs[:2]
    version = _type_version("CONV_2D", x)
    if x.dtype == "INT16":
        return 8 if options.get("quantized_bias_type") else version
    if w.dtype == "INT4":
        return 7
    if len(x.shape) == len(w.shape) == 4 and w.shape[3] and x.shape[3] > w.shape[3]:
        return 6
    if _is_hybrid(x, w):
        return 5 if _has_channels(w, 0) else 2
    return version


def _depthwise(inputs: Sequence[Operand], count: int, options: Mapping[str, Any]) -> int:
    """Version by type, weights, scales and dilation."""
    x, w = inputs[:2]
    version = _type_version("DEPTHWISE_CONV_2D", x)
    if x.dtype == "INT16":
        return version
    if w.dtype == "INT4":
        return 7
    if _is_hybrid(x, w):
        return 6 if _has_channels(w, -1) else 4
    dilated = any(options.get(f"dilation_{k}_factor", 1) != 1 for k in "wh")
    return max(version, 2 if dilated else 1)


def _fully_connected(inputs: Sequence[Operand], count: int, options: Mapping[str, Any]) -> int:
    """The largest version of which an operator needs the rule, and that of its type."""
    x, w = inputs[:2]
    rules = {
        13: x.dtype == "INT16" and w.dtype == "INT4",
        PER_CHANNEL: _is_hybrid(x, w) and _has_channels(w, 0),
        11: x.dtype == "INT16" and options.get("quantized_bias_type"),
        10: w.dtype == "INT4",
        9: _is_hybrid(x, w) and options.get("asymmetric_quantize_inputs"),
        8: w.sparse,
        6: count == 2,
        5: options.get("keep_num_dims"),
        3: _is_hybrid(x, w),
        2: options.get("weights_format") == SHUFFLED,
    }
    least = next((version for version, needed in rules.items() if needed), 1)
    return max(least, _type_version("FULLY_CONNECTED", x))


def _transpose_conv(inputs: Sequence[Operand], count: int, options: Mapping[str, Any]) -> int:
    x, w = inputs[2], inputs[1]
    version = max(_type_version("TRANSPOSE_CONV", x), 2 if w.dtype == "INT8" else 1)
    if x.dtype == "INT16" and options.get("quantized_bias_type"):
        return 5
    if options.get("fused_activation_function"):
        return max(version, 4)
    return max(version, 3 if count > 3 and inputs[3] != NOTHING else 1)


def _svdf(inputs: Sequence[Operand], count: int, options: Mapping[str, Any]) -> int:
    x, w = inputs[:2]
    if x.dtype == "INT8":
        return 3
    if _is_hybrid(x, w):
        return 4 if options.get("asymmetric_quantize_inputs") else 2
    return 1


def _rnn(inputs: Sequence[Operand], count: int, options: Mapping[str, Any]) -> int:
    if not _is_hybrid(inputs[0], inputs[1]):
        return 1
    return 3 if options.get("asymmetric_quantize_inputs") else 2


def _lstm(inputs: Sequence[Operand], count: int, options: Mapping[str, Any]) -> int:
    if options.get("kernel_type") == LSTM_KERNEL_BASIC:
        return 2
    if not _is_hybrid(inputs[0], inputs[2]):
        return 1
    return 4 if options.get("asymmetric_quantize_inputs") else 3


def _sequence_lstm(inputs: Sequence[Operand], count: int, options: Mapping[str, Any]) -> int:
    if options.get("diagonal_recurrent_tensors"):
        return 4
    if not _is_hybrid(inputs[0], inputs[2]):
        return 1
    return 3 if options.get("asymmetric_quantize_inputs") else 2


def _embedding_lookup(inputs: Sequence[Operand], count: int, options: Mapping[str, Any]) -> int:
    w = inputs[1]
    return 4 if w.dtype == "INT4" or _has_channels(w, 0) else 1


LAYER_RULES = {
    "CONV_2D": _conv_2d,
    "DEPTHWISE_CONV_2D": _depthwise,
    "EMBEDDING_LOOKUP": _embedding_lookup,
    "FULLY_CONNECTED": _fully_connected,
    "TRANSPOSE_CONV": _transpose_conv,
    "SVDF": _svdf,
    **dict.fromkeys(RNNS, _rnn),
    "LSTM": _lstm,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _sequence_lstm,
    "BIDIRECTIONAL_SEQUENCE_LSTM": _rnn,
}


def raise_versions(tables: dict[str, Any]) -> None:
    """Raises the versions in a table Model to what its operators need.

    Operators of one code that need different versions get a code each.
    """
    codes = tables.get("operator_codes") or []
    numbers: dict[tuple[int, int], int] = {}  # code in the file and version → new code
    for graph in tables.get("subgraphs") or ():
        tensors = graph.get("tensors") or []
        for operator in graph.get("operators") or ():
            k = operator.get("opcode_index") or 0
            if k >= len(codes):  # the reader refuses such a file
                continue
            code = codes[k]
            new_version = max(code.get("version") or 1, _needed_version(code, operator, tensors))
            if (k, new_version) not in numbers:
                if any(old == k for old, _ in numbers):
                    codes.append({**code, "version": new_version})
                    numbers[k, new_version] = len(codes) - 1
                else:
                    numbers[k, new_version] = k
            operator["opcode_index"] = numbers[k, new_version]
    for (_, new_version), k in numbers.items():
        codes[k]["version"] = new_version


def builtin_code(code: Mapping[str, Any]) -> int:
    """Returns the code of an operator from a table OperatorCode."""
    numbers = (int(code.get(n) or 0) for n in ("deprecated_builtin_code", "builtin_code"))
    return operator_code(*numbers)


def _needed_version(
    code: Mapping[str, Any], operator: Mapping[str, Any], tensors: Sequence[Any]
) -> int:
    """The version that an operator of a table Model needs."""
    op = operator_name(builtin_code(code))
    if op is None or op == "CUSTOM":
        return 1
    inputs, outputs = (
        [tensors[int(i)] if 0 <= i < len(tensors) else None for i in _items(operator.get(name))]
        for name in ("inputs", "outputs")
    )
    return operands_version(op, inputs, outputs, operator)


def operands_version(
    op: str,
    inputs: Sequence[Mapping[str, Any] | None],
    outputs: Sequence[Mapping[str, Any] | None],
    operator: Mapping[str, Any],
) -> int:
    """Returns the version that an operator of a file needs.

    Args:
        op: name in the schema.
        inputs, outputs: its tables Tensor; None for those that are absent.
        operator: its table Operator.
    """
    stored = operator.get("builtin_options") or {}
    options = {**default_options(op), **{n: v for n, v in stored.items() if v is not None}}
    operands, results = ([_operand(t) for t in tensors] for tensors in (inputs, outputs))
    return operator_version(op, operands, results, options)


def _operand(tensor: Mapping[str, Any] | None) -> Operand:
    if tensor is None:
        return NOTHING
    quantization = tensor.get("quantization") or {}
    return Operand(
        tensor_type(tensor.get("type") or 0) or "",
        tuple(int(n) for n in _items(tensor.get("shape"))),
        tuple(float(s) for s in _items(quantization.get("scale"))),
        bool(tensor.get("sparsity")),
    )


def _items(values: Any) -> Sequence[Any]:
    """Returns the items of a vector, which may be absent or an array."""
    return () if values is None else values
