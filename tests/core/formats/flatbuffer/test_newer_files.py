"""Files of LiteRT 2.3: new types, scales of blocks, weights in other files, many nodes."""

import math
import re
import time
from typing import Any

import flatbuffers
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_builder import ModelBuilder, table
from support.limits import SECONDS
from support.lowering import lower

from odt.core.formats.flatbuffer.flatbuffer import CIRCLE, TFLITE, FlatBuffer
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.formats.flatbuffer.schema_tables import code_of, pack
from odt.core.formats.flatbuffer.slots import ModelSlot, OperatorSlot, SubGraphSlot
from odt.core.model.model import Model
from odt.errors import ModelError, UnsupportedError
from odt.kernels.rows.opdef import Array

BITS = {"INT2": 2, "INT4": 4, "UINT4": 4, "FLOAT8_E4M3FN": 8, "FLOAT8_E5M2": 8, "BFLOAT16": 16}
CODES = {"INT2": 19, "UINT4": 20, "FLOAT8_E4M3FN": 21, "FLOAT8_E5M2": 22}  # schema of LiteRT 2.3.0


def parse(data: bytes) -> Model:
    return parse_model(memoryview(data), "m")


def refused(data: bytes, message: str) -> None:
    with pytest.raises(ModelError, match=re.escape(message)) as e:
        parse(data)
    assert str(e.value).startswith("m: ")
    assert "\n" not in str(e.value)


def with_weight(
    file_format: str = TFLITE,
    shape: tuple[int, ...] = (4, 8),
    kind: str = "INT8",
    data: bytes = b"",
) -> ModelBuilder:
    """FULLY_CONNECTED on real numbers: tensors x 0, w 1, y 2."""
    built = ModelBuilder(file_format)
    x = built.add_input((1, shape[-1]))
    w = built.add_tensor(shape, name="w", buffer=built.add_buffer(data or bytes(math.prod(shape))))
    built.graph.tensors[w].type = code_of("TensorType", kind, file_format)
    built.add_operator("FULLY_CONNECTED", (x, w, -1), (1, shape[0]))
    return built


@pytest.mark.parametrize("kind", BITS)
def test_new_types_are_bytes_with_a_name(kind: str) -> None:
    data = bytes(range(1, 4 * 8 * BITS[kind] // 8 + 1))
    built = with_weight(kind=kind, data=data)
    assert built.graph.tensors[1].type == CODES.get(kind, built.graph.tensors[1].type)
    tensor = parse(built.build(2)).graph.tensors[1]
    assert tensor.spec.dtype.names == (kind,)
    assert tensor.spec.shape == (4, 8)
    assert tensor.data is not None
    assert tensor.data.tobytes() == data


@pytest.mark.parametrize("kind", [k for k in BITS if k.startswith("FLOAT8")])
@pytest.mark.parametrize("op", ["CAST", "DEQUANTIZE", "FULLY_CONNECTED"])
def test_operators_on_float8_are_named(op: str, kind: str) -> None:
    """LiteRT 2.3.0 computes none of them, either."""
    built = with_weight(kind=kind, data=bytes(32))
    y = 2
    if op != "FULLY_CONNECTED":
        y = built.add_operator(op, (1,), (4, 8))
    with pytest.raises(UnsupportedError, match=rf'tensor 1 \("w"\) of {kind}') as e:
        lower(parse(built.build(y)).graph, 1)
    assert f"({op})" in str(e.value)


def test_outputs_of_types_that_numpy_lacks_are_named() -> None:
    built = with_weight(kind="BFLOAT16", data=bytes(64))
    x = built.add_operator("RELU", (0,), (1, 8))
    built.graph.operators = built.graph.operators[1:]
    built.graph.outputs = [x, 1]
    with pytest.raises(UnsupportedError, match=r"output tensor 1 .*real numbers, but got BFLOAT16"):
        lower(parse(built.build(x, 1)).graph, 1)


@pytest.mark.parametrize(("file_format", "code"), [(TFLITE, 20), (CIRCLE, -1)])
def test_uint4_has_a_code_of_its_own_in_each_format(file_format: str, code: int) -> None:
    built = with_weight(file_format, kind="UINT4")
    assert built.graph.tensors[1].type == code
    assert parse(built.build(2)).graph.tensors[1].spec.dtype.names == ("UINT4",)


@pytest.mark.parametrize(
    ("file_format", "code", "cause"),
    [
        (TFLITE, 23, "The file is newer than odt knows, which is LiteRT 2.3.0."),
        (TFLITE, -1, "The file is damaged or truncated."),
        (CIRCLE, 20, "The file is newer than odt knows, which is Circle 0.10."),
        (CIRCLE, -8, "The file is newer than odt knows, which is Circle 0.10."),
    ],
)
def test_unknown_types_are_newer_and_not_damaged(file_format: str, code: int, cause: str) -> None:
    built = with_weight(file_format)
    built.graph.tensors[1].type = code
    refused(built.build(2), f'("w"): type must be one of the schema, but got code {code}. {cause}')


def test_unknown_operators_and_options_are_newer() -> None:
    newer = "The file is newer than odt knows, which is LiteRT 2.3.0."
    built = with_weight()
    built.model.operator_codes[0].builtin_code = 210
    refused(built.build(2), f"must be an operator of the tflite schema, but got code 210. {newer}")
    built = with_weight(CIRCLE)
    built.model.operator_codes[0].builtin_code = -10
    refused(built.build(2), "but got code -10. The file is newer than odt knows, which is Circle")
    data = bytearray(with_weight().build(2))
    (graph,) = FlatBuffer("m", memoryview(data)).root().tables(ModelSlot.SUBGRAPHS, "subgraph")
    (operator,) = graph.tables(SubGraphSlot.OPERATORS, "operator")
    data[operator.place(OperatorSlot.BUILTIN_OPTIONS_TYPE, 1)] = 240
    refused(bytes(data), f"must be of the schema, but got BuiltinOptions 240. {newer}")


def with_external_weights(numbers: dict[int, int], groups: list[str]) -> bytes:
    """A network whose tensors are in other files: tensor → number; one buffer a group, from 7."""
    built = ModelBuilder(TFLITE)
    x = built.add_input((1, 8))
    for k in range(3):
        w = built.add_tensor((8, 8), name=f"w{k}")
        x = built.add_operator("FULLY_CONNECTED", (x, w, -1), (1, 8))
    for tensor, number in numbers.items():
        built.graph.tensors[tensor].external_buffer = number
    built.model.external_buffer_groups = [table("ExternalBufferGroup", name=g) for g in groups]
    built.model.external_buffers = [
        table("ExternalBuffer", id=7 + k, group=k, length=256) for k in range(len(groups))
    ]
    return built.build(x)


def test_weights_in_another_file_are_named_with_it() -> None:
    convert = "Convert the model again with its weights inside: odt reads one file."
    refused(
        with_external_weights({1: 7}, ["weights.bin"]),
        'subgraph 0: tensor 1 ("w0"): values must be in the model, but are in the file '
        f'"weights.bin" beside it. {convert}',
    )
    refused(
        with_external_weights({1: 8, 3: 7, 5: 8}, ["a.bin", "b\n.bin"]),
        'tensor 1 ("w0") and 2 more: values must be in the model, but are in the files '
        f'"b\\n.bin", "a.bin" beside it. {convert}',
    )
    refused(
        with_external_weights({1: 9}, ["weights.bin"]),
        'tensor 1 ("w0"): its external buffer must be in the model\'s list and belong to one of 1 '
        "groups, but got number 9. The file is damaged or truncated.",
    )


def test_slot_10_of_a_tensor_is_its_compression_in_circle_files() -> None:
    built = with_weight(CIRCLE)
    built.graph.tensors[1].compression_type = 1
    assert parse(built.build(2)).graph.tensors[1].spec.dtype.names == ("COMPRESSED_INT8",)


def with_blocks(
    shape: tuple[int, ...],
    blocks: tuple[int, ...],
    scale: Array,
    zero_point: Array | None = None,
    **changed: Any,
) -> bytes:
    """A weight of int8 with scales for blocks."""
    built = with_weight(shape=shape, data=bytes(math.prod(shape)))
    details = table(
        "BlockwiseQuantization",
        scales=built.add_constant(scale, "scales"),
        zero_points=-1 if zero_point is None else built.add_constant(zero_point, "zero points"),
        block_shape=list(blocks),
    )
    for name, value in changed.items():
        setattr(details, name, value)
    built.graph.tensors[1].quantization = table(
        "QuantizationParameters",
        details_type=code_of("QuantizationDetails", "BlockwiseQuantization", TFLITE),
        details=details,
    )
    return built.build(2)


@given(st.data())
def test_scales_of_blocks_are_those_of_their_tensors(data: st.DataObject) -> None:
    sizes = st.integers(1, 3)
    rank = data.draw(st.integers(1, 4))
    grid = tuple(data.draw(sizes) for _ in range(rank))
    blocks = tuple(data.draw(sizes) for _ in range(rank))
    shape = tuple(g * b for g, b in zip(grid, blocks, strict=True))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    scale = rng.uniform(0.1, 1, grid).astype(data.draw(st.sampled_from((np.float16, np.float32))))
    zero_point = None
    if data.draw(st.booleans()):
        zero_point = rng.integers(-8, 8, grid).astype(np.int32)
    flat = data.draw(st.booleans())  # a size along the last axis, instead of sizes of all axes
    if flat:
        blocks = (*(1,) * (rank - 1), blocks[-1])
        shape = tuple(g * b for g, b in zip(grid, blocks, strict=True))
    changed = {"block_shape": None, "block_size": blocks[-1]} if flat else {}
    file = with_blocks(shape, blocks, scale, zero_point, **changed)
    quantization = parse(file).quantization[1]
    assert quantization.blocks == blocks
    assert quantization.scale.dtype == np.float32
    assert quantization.zero_point.dtype == np.int64
    assert np.array_equal(quantization.scale, scale.astype(np.float32).reshape(-1))
    expected = np.zeros(grid) if zero_point is None else zero_point
    assert np.array_equal(quantization.zero_point, expected.reshape(-1))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"block_shape": [1, 3]}, "blocks must divide the shape, but got (1, 3) of (4, 8)"),
        ({"block_shape": [1, 0]}, "positive size along each axis of (4, 8), but got (1, 0)"),
        ({"block_shape": [4]}, "positive size along each axis of (4, 8), but got (4,)"),
        ({"block_shape": [2, 4]}, "there must be 4 scales, one for each block, but got 8"),
        ({"scales": 0}, "scales must be a constant of real numbers, but got tensor 0 of float32"),
        ({"scales": 99}, "the tensor of scales must be below 4, but got 99"),
        ({"zero_points": 3}, "zero points must be a constant of integers, but got tensor 3 of"),
        ({"zero_points": -2}, "the tensor of zero points must be below 4, but got -2"),
    ],
)
def test_wrong_blocks_are_named(changed: dict[str, Any], message: str) -> None:
    refused(with_blocks((4, 8), (1, 4), np.ones((4, 2), np.float16), None, **changed), message)


def test_scales_along_several_axes() -> None:
    scale = np.arange(1, 9, dtype=np.float32)
    for axes, size, blocks in (([0, 1], 0, (1, 1, 3)), ([2, 0], 0, None), ([0, 1], 2, None)):
        built = with_weight(shape=(4, 2, 3), data=bytes(24))
        scales = built.add_constant(scale)
        built.graph.tensors[1].quantization = table(
            "QuantizationParameters",
            details_type=code_of("QuantizationDetails", "MultiAxisQuantization", TFLITE),
            details=table(
                "MultiAxisQuantization",
                scales=scales,
                zero_points=-1,
                block_size=size,
                quantized_dimensions=axes,
            ),
        )
        data = built.build(2)
        if blocks is None:
            refused(data, "must have no blocks" if size else "there must be 12 scales")
        else:
            quantization = parse(data).quantization[1]
            assert (quantization.blocks, quantization.scale.tolist()) == (blocks, scale.tolist())


def chain(count: int) -> bytes:
    """A file of `count` nodes: RELU after RELU, each tensor with a name."""
    names = [f"tensor_{k}" for k in range(count + 1)]
    model: dict[str, Any] = {
        "version": 3,
        "operator_codes": [{"builtin_code": 19, "deprecated_builtin_code": 19}],
        "buffers": [{}],
        "subgraphs": [
            {
                "tensors": [{"shape": [1, 8], "name": n} for n in names],
                "operators": [{"inputs": [k], "outputs": [k + 1]} for k in range(count)],
                "inputs": [0],
                "outputs": [count],
            }
        ],
    }
    builder = flatbuffers.Builder(1024)
    builder.Finish(pack(builder, "Model", model, TFLITE), b"TFL3")
    return bytes(builder.Output())


@pytest.mark.parametrize("count", [10_000, pytest.param(50_000, marks=pytest.mark.accept)])
def test_files_of_many_nodes_are_read(count: int) -> None:
    data = chain(count)
    begin = time.process_time()
    graph = parse(data).graph
    assert time.process_time() - begin < SECONDS
    assert len(graph.nodes) == count
