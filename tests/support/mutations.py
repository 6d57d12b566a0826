"""Damages files as disks, networks and attackers do, with a seed."""

import struct
from collections.abc import Callable, Iterator
from typing import Any

import flatbuffers
import numpy as np
from circle_schema.v0_10 import circle as schema

Change = Callable[[Any, np.random.Generator], None]
# What shapes, axes and options become.
SIZES = (*range(-3, 9), 16, 63, 65, 127, 1000, 2**16, 2**20, 2**31 - 1, -(2**31))
SCALES = (0.0, 1.0, -1.0, 1e-3, 1e30, float("nan"), float("inf"))
TEXTS = ("", "x", "\x1b[2J\n", "é" * 50, "n" * 3000)
EXTREMES = (0, 1, 2, 4, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def mutations(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Yields damaged copies: changed bytes, extreme numbers, inflated lengths, truncation.

    In a flatbuffer, tables and weights are in separate regions. Half of all changes are made where
    small numbers are, which is in the tables.
    """
    rng = np.random.default_rng(seed)
    words = np.frombuffer(data[: len(data) // 4 * 4], "<u4")
    tables = 4 * np.flatnonzero((words > 0) & (words < len(data)))
    for _ in range(count):
        changed = bytearray(data)
        for _ in range(int(rng.integers(1, 4))):
            in_tables = rng.random() < 0.5 and len(tables)
            at = int(rng.choice(tables) if in_tables else rng.integers(len(data)))
            old = int.from_bytes(changed[at : at + 4], "little")
            new = (
                old ^ int(rng.integers(1, 256)) << int(rng.choice((0, 8, 16, 24))),
                int(rng.choice(EXTREMES)),
                (old + 4 * int(rng.integers(-8, 9))) % 2**32,
            )[int(rng.integers(3))]
            changed[at : at + 4] = new.to_bytes(4, "little")
        if rng.random() < 0.05:
            del changed[int(rng.integers(len(data))) :]
        yield bytes(changed)


def structures(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Yields models with valid tables but other contents.

    Changes shapes, types, buffers, scales, operands, options, signatures, inputs and outputs; in
    TFLite files that need the schema of LiteRT, also blocks of scales and external buffers.
    """
    rng = np.random.default_rng(seed)
    read, changes = schema.Model.ModelT.InitFromPackedBuf, CHANGES
    if data[4:8] == b"TFL3" and b"_scales" in data:
        from ai_edge_litert.schema_py_generated import ModelT

        read, changes = ModelT.InitFromPackedBuf, (*CHANGES, *(_change_blocks,) * 5)
    made = 0
    while made < count:
        model = read(data)
        for _ in range(int(rng.integers(1, 4))):
            change = changes[int(rng.integers(len(changes)))]
            change(model, rng)
        try:
            builder = flatbuffers.Builder(1024)
            builder.Finish(model.Pack(builder), data[4:8])
        except (struct.error, TypeError, ValueError, OverflowError, AttributeError):
            continue  # what no table can hold
        made += 1
        yield bytes(builder.Output())


def _one(items: Any, rng: np.random.Generator) -> Any:
    return items[int(rng.integers(len(items)))]


def _change_numbers(values: Any, rng: np.random.Generator, choices: Any) -> list[int]:
    """Changes, adds, removes or repeats an entry of a list."""
    changed = [] if values is None else [int(v) for v in values]
    at, kind = int(rng.integers(len(changed) + 1)), int(rng.integers(6))
    new = int(_one(choices, rng))
    if kind < 3 and at < len(changed):
        changed[at] = new
    elif kind == 3:
        changed.insert(at, new)
    elif kind == 4:
        del changed[at : at + 1]
    else:
        changed += [new] * int(rng.choice((1, 2, 70, 150)))
    return changed


def _change_tensor(model: Any, rng: np.random.Generator) -> None:
    tensor = _one(model.subgraphs[0].tensors, rng)
    kind = int(rng.integers(8))
    if kind < 3:
        tensor.shape = _change_numbers(tensor.shape, rng, SIZES)
        tensor.shapeSignature = None
    elif kind == 3:
        tensor.shapeSignature = _change_numbers(tensor.shapeSignature, rng, SIZES)
    elif kind == 4:
        tensor.type = int(rng.integers(0, 24))
    elif kind == 5:
        tensor.buffer = int(rng.integers(0, len(model.buffers) + 1))
    elif kind == 6:
        tensor.isVariable = not tensor.isVariable
    else:
        tensor.name = _one(TEXTS, rng)


def _change_quantization(model: Any, rng: np.random.Generator) -> None:
    tensor = _one(model.subgraphs[0].tensors, rng)
    table = schema.QuantizationParameters.QuantizationParametersT()
    counts = (0, 1, 1, 2, 3, *(tensor.shape if tensor.shape is not None else ()))
    table.scale = [float(_one(SCALES, rng))] * min(int(_one(counts, rng)), 100)
    table.zeroPoint = [int(_one((0, 0, 3, 2**62), rng))] * min(int(_one(counts, rng)), 100)
    table.quantizedDimension = int(_one((0, 0, 1, 3, -1, 70), rng))
    tensor.quantization = _one((None, table, table), rng)


def _change_blocks(model: Any, rng: np.random.Generator) -> None:
    """Changes where scales of blocks are, the blocks, or whether values are in another file."""
    graph = model.subgraphs[0]
    if rng.random() < 0.1:
        _one(graph.tensors, rng).externalBuffer = int(rng.integers(1, 9))
        return
    blockwise = [t.quantization for t in graph.tensors if getattr(t.quantization, "details", None)]
    if not blockwise:
        return
    quantization, kind = _one(blockwise, rng), int(rng.integers(6))
    details, tensors = quantization.details, range(-2, len(graph.tensors) + 1)
    if kind == 0:
        details.scales = int(_one(tensors, rng))
    elif kind == 1:
        details.zeroPoints = int(_one(tensors, rng))
    elif kind == 2:
        details.blockSize = int(_one(SIZES, rng))
    elif kind == 3:
        details.blockShape = _change_numbers(getattr(details, "blockShape", None), rng, SIZES)
    elif kind == 4:
        quantization.detailsType = int(rng.integers(5))
    else:
        quantization.quantizedDimension = int(_one(SIZES, rng))


def _change_buffer(model: Any, rng: np.random.Generator) -> None:
    buffer = _one(model.buffers, rng)
    if buffer.data is None or not len(buffer.data):
        return
    whole = buffer.data[: len(buffer.data) // 4 * 4]
    kind = int(rng.integers(5))
    if kind < 3 and len(whole):
        words = whole.view("<i4").copy()
        words[int(rng.integers(len(words)))] = _one(SIZES, rng)
        buffer.data = words.view(np.uint8)
    elif kind == 3:
        buffer.data = buffer.data[: int(rng.integers(len(buffer.data)))]
    else:
        buffer.data = rng.integers(0, 256, len(buffer.data)).astype(np.uint8)


def _change_operator(model: Any, rng: np.random.Generator) -> None:
    graph = model.subgraphs[0]
    if not graph.operators:
        return
    operator, tensors = _one(graph.operators, rng), range(-1, len(graph.tensors) + 1)
    kind = int(rng.integers(8))
    if kind < 2:
        operator.inputs = _change_numbers(operator.inputs, rng, tensors)
    elif kind == 2:
        operator.outputs = _change_numbers(operator.outputs, rng, tensors)
    elif kind == 3:
        operator.opcodeIndex = int(rng.integers(len(model.operatorCodes) + 1))
    elif kind == 4:
        other = _one(graph.operators, rng)
        operator.builtinOptionsType = other.builtinOptionsType
        operator.builtinOptions = other.builtinOptions
    elif operator.builtinOptions is not None and vars(operator.builtinOptions):
        field = _one(sorted(vars(operator.builtinOptions)), rng)
        old = getattr(operator.builtinOptions, field)
        if old is None or isinstance(old, (list, np.ndarray)):
            setattr(operator.builtinOptions, field, _change_numbers(old, rng, SIZES))
        elif isinstance(old, float):
            setattr(operator.builtinOptions, field, float(_one(SCALES, rng)))
        else:
            setattr(operator.builtinOptions, field, int(_one(SIZES, rng)) % 2**7)


def _change_code(model: Any, rng: np.random.Generator) -> None:
    """Replaces an operator, with the same operands."""
    code = _one(model.operatorCodes, rng)
    code.builtinCode = int(rng.integers(0, 210))
    code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    code.customCode = _one((None, *TEXTS), rng)
    for operator in model.subgraphs[0].operators:
        if rng.random() < 0.7:  # which options it then has is another change
            operator.builtinOptionsType, operator.builtinOptions = 0, None


def _change_order(model: Any, rng: np.random.Generator) -> None:
    """Changes the order of operators, signatures, or the graph's inputs and outputs."""
    graph = model.subgraphs[0]
    tensors, kind = range(-1, len(graph.tensors) + 1), int(rng.integers(5))
    if kind == 0:
        graph.inputs = _change_numbers(graph.inputs, rng, tensors)
    elif kind == 1:
        graph.outputs = _change_numbers(graph.outputs, rng, tensors)
    elif kind == 2 and graph.operators:
        graph.operators.insert(int(rng.integers(len(graph.operators))), _one(graph.operators, rng))
    elif kind == 3 and graph.operators:
        del graph.operators[int(rng.integers(len(graph.operators)))]
    else:
        entry = schema.TensorMap.TensorMapT()
        entry.name, entry.tensorIndex = _one(TEXTS, rng), int(rng.integers(2**31))
        signature = schema.SignatureDef.SignatureDefT()
        signature.signatureKey = _one(TEXTS, rng)
        signature.inputs = signature.outputs = [entry] * int(rng.integers(3))
        signature.subgraphIndex = int(rng.integers(2))
        model.signatureDefs = [*(model.signatureDefs or []), signature]


CHANGES: tuple[Change, ...] = (
    *(_change_tensor, _change_tensor, _change_quantization, _change_buffer, _change_buffer),
    *(_change_operator, _change_operator, _change_operator, _change_code, _change_order),
)
