"""Operators that odt writes have versions that LiteRT knows, and never one that is too low."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_builder import ModelBuilder
from support.judges import difference, litert

import odt
from odt.core.formats.flatbuffer.flatbuffer import FlatBuffer
from odt.core.formats.flatbuffer.operator_options import operator_name
from odt.core.formats.flatbuffer.operator_versions import Operand, builtin_code, operator_version
from odt.core.formats.flatbuffer.schema_tables import unpack
from odt.core.formats.reader import read_model
from odt.core.lowering.binding import row_of
from odt.core.model.model import Model
from odt.core.quantization.rules import INT8, INT16

Build = Callable[[ModelBuilder], int]
SHAPE = (1, 4, 6, 8)
STRIDES = {"stride_w": 1, "stride_h": 1}
WINDOW: Any = {**STRIDES, "filter_width": 2, "filter_height": 2, "padding": 0}


def moved(
    op: str, result: Sequence[int] = SHAPE, *statics: Any, first: bool = False, **options: Any
) -> Build:
    """An operator with one activation, and constants after it, or before."""

    def build(b: ModelBuilder) -> int:
        x, more = b.add_input(SHAPE), [b.add_constant(np.asarray(a, np.int32)) for a in statics]
        inputs = [*more, x] if first else [x, *more]
        return b.add_operator(op, inputs, result, **options)

    return build


def pair(op: str, result: Sequence[int] = SHAPE, **options: Any) -> Build:
    def build(b: ModelBuilder) -> int:
        return b.add_operator(op, (b.add_input(SHAPE), b.add_input(SHAPE)), result, **options)

    return build


def layer(op: str, w: Sequence[int], b: int, result: Sequence[int], **options: Any) -> Build:
    def build(net: ModelBuilder) -> int:
        inputs = [net.add_input(SHAPE), net.add_weight(w, 9)]
        if b:
            inputs.append(net.add_constant(np.zeros(b, np.float32)))
        if op == "TRANSPOSE_CONV":
            inputs[:2] = net.add_constant(list(result)), inputs[1], inputs[0]
        return net.add_operator(op, inputs, result, **options)

    return build


def product(b: ModelBuilder) -> int:
    inputs = b.add_input(SHAPE), b.add_input((1, 4, 8, 3))
    return b.add_operator("BATCH_MATMUL", inputs, (1, 4, 6, 3))


def slopes(b: ModelBuilder) -> int:
    a = b.add_constant(np.full((1, 1, 8), 0.25, np.float32))
    return b.add_operator("PRELU", (b.add_input(SHAPE), a), SHAPE)


def rows(b: ModelBuilder) -> int:
    shapes = [(1, 6, 8)] * 4
    return b.add_operator("UNPACK", (b.add_input(SHAPE),), *shapes, num=4, axis=1)


FLAT = (1, 192)
NETWORKS: dict[str, Build] = {
    **{op: moved(op) for op in INT8 if row_of(op).inputs == ("x",)},  # without options
    "SOFTMAX": moved("SOFTMAX", beta=1.0),
    "LEAKY_RELU": moved("LEAKY_RELU", alpha=0.2),
    "PRELU": slopes,
    **{op: pair(op) for op in ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE")},
    "BATCH_MATMUL": product,
    "CONCATENATION": pair("CONCATENATION", (1, 4, 6, 16), axis=3),
    "PACK": pair("PACK", (1, 2, 4, 6, 8), axis=1, values_count=2),
    "MEAN": moved("MEAN", (1, 8), (1, 2)),
    "SUM": moved("SUM", (1, 8), (1, 2)),
    "REDUCE_MAX": moved("REDUCE_MAX", (1, 8), (1, 2)),
    "RESHAPE": moved("RESHAPE", FLAT, FLAT, new_shape=FLAT),
    "SQUEEZE": moved("SQUEEZE", SHAPE[1:], squeeze_dims=[0]),
    "EXPAND_DIMS": moved("EXPAND_DIMS", (1, 1, 4, 6, 8), 1),
    "TRANSPOSE": moved("TRANSPOSE", (1, 6, 4, 8), (0, 2, 1, 3)),
    "SLICE": moved("SLICE", (1, 2, 6, 8), (0, 1, 0, 0), (1, 2, 6, 8)),
    "STRIDED_SLICE": moved("STRIDED_SLICE", (1, 2, 6, 8), (0, 0, 0, 0), (1, 4, 6, 8), (1, 2, 1, 1)),
    "GATHER": moved("GATHER", (1, 2, 6, 8), (3, 1), axis=1),
    "SPLIT": moved("SPLIT", (1, 4, 6, 8), 3, first=True, num_splits=1),
    "SPLIT_V": moved("SPLIT_V", (1, 4, 6, 8), (8,), 3, num_splits=1),
    "UNPACK": rows,
    "PAD": moved("PAD", (1, 6, 6, 8), ((0, 0), (1, 1), (0, 0), (0, 0))),
    "MIRROR_PAD": moved("MIRROR_PAD", (1, 6, 6, 8), ((0, 0), (1, 1), (0, 0), (0, 0))),
    "TILE": moved("TILE", (1, 8, 6, 8), (1, 2, 1, 1)),
    "SPACE_TO_DEPTH": moved("SPACE_TO_DEPTH", (1, 2, 3, 32), block_size=2),
    "DEPTH_TO_SPACE": moved("DEPTH_TO_SPACE", (1, 8, 12, 2), block_size=2),
    "SPACE_TO_BATCH_ND": moved("SPACE_TO_BATCH_ND", (4, 2, 3, 8), (2, 2), ((0, 0), (0, 0))),
    "RESIZE_BILINEAR": moved("RESIZE_BILINEAR", (1, 8, 12, 8), (8, 12), half_pixel_centers=True),
    "RESIZE_NEAREST_NEIGHBOR": moved("RESIZE_NEAREST_NEIGHBOR", (1, 8, 12, 8), (8, 12)),
    "MAX_POOL_2D": moved("MAX_POOL_2D", **WINDOW),
    "AVERAGE_POOL_2D": moved("AVERAGE_POOL_2D", **WINDOW),
    "CONV_2D": layer("CONV_2D", (3, 2, 2, 8), 3, (1, 4, 6, 3), **STRIDES),
    "DEPTHWISE_CONV_2D": layer(
        "DEPTHWISE_CONV_2D", (1, 2, 2, 8), 8, SHAPE, depth_multiplier=1, **STRIDES
    ),
    "TRANSPOSE_CONV": layer("TRANSPOSE_CONV", (3, 2, 2, 8), 3, (1, 4, 6, 3), **STRIDES),
    "FULLY_CONNECTED": layer("FULLY_CONNECTED", (3, 8), 3, (1, 4, 6, 3), keep_num_dims=True),
}
UNBATCHED = ("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND", "SQUEEZE")  # odt runs them inside networks


def versions(model: Model) -> dict[str, int]:
    """Returns the version of each operator of a file."""
    root = FlatBuffer(model.path, model.data).root()
    tables = [unpack(t, "OperatorCode") for t in root.tables(1, "operator code")]
    return {str(operator_name(builtin_code(t))): t.get("version", 1) for t in tables}


def quantized(build: Build, scheme: str, folder: Path) -> Path:
    b = ModelBuilder("tflite", seed=2)
    b.write(folder / "float.tflite", build(b))
    graph = read_model(str(folder / "float.tflite")).graph
    shapes = [graph.tensors[i].spec.shape[1:] for i in graph.inputs]
    rng = np.random.default_rng(1)
    x = [rng.normal(size=(32, *shape)).astype(np.float32) for shape in shapes]
    samples = None if scheme.endswith("weights") else x
    model = odt.quantize(folder / "float.tflite", samples, scheme=scheme).model  # type: ignore[arg-type]
    model.save(folder / "quantized.tflite")
    return folder / "quantized.tflite"


def test_every_operator_has_a_network() -> None:
    left = {"BATCH_TO_SPACE_ND"}
    assert NETWORKS.keys() | left == INT8 | INT16


CASES = [
    (op, scheme)
    for scheme, operators in (("int8", INT8), ("int16x8", INT16))
    for op in sorted(operators & NETWORKS.keys())
    if op not in UNBATCHED
]


@pytest.mark.parametrize(("op", "scheme"), CASES)
def test_litert_loads_each_operator(op: str, scheme: str, tmp_path: Path) -> None:
    path = quantized(NETWORKS[op], scheme, tmp_path)
    written = read_model(str(path))
    assert op in versions(written)
    assert written.graph.nodes[0].op == "QUANTIZE"
    shapes = [written.graph.tensors[i].spec.shape[1:] for i in written.graph.inputs]
    rng = np.random.default_rng(5)
    x = [rng.normal(size=(4, *shape)).astype(np.float32) for shape in shapes]
    real, integer = litert(tmp_path / "float.tflite", x), litert(path, x, xnnpack=False)
    assert difference(real[0], integer[0]) < 0.1


@pytest.mark.parametrize(
    ("op", "scheme", "version"),
    [
        ("RELU_N1_TO_1", "int8", 1),
        ("LEAKY_RELU", "int8", 1),
        ("LEAKY_RELU", "int16x8", 2),
        ("CONV_2D", "int8", 3),
        ("CONV_2D", "int16x8", 4),
        ("FULLY_CONNECTED", "int16x8", 7),
        ("FULLY_CONNECTED", "int8", 5),  # it keeps the number of dimensions
        ("FULLY_CONNECTED", "int8-weights", 12),
        ("FULLY_CONNECTED", "int4-weights", 12),
        ("CONV_2D", "int8-weights", 5),
        ("DEPTHWISE_CONV_2D", "int8-weights", 6),
        ("RESIZE_BILINEAR", "int8", 3),
        ("MAXIMUM", "int16x8", 4),
        ("SUB", "int16x8", 5),
        ("TRANSPOSE", "int16x8", 5),
        ("TILE", "int8", 3),
    ],
)
def test_versions_are_those_of_the_rule(op: str, scheme: str, version: int, tmp_path: Path) -> None:
    """As TFLite's op_version.cc and the registry of LiteRT 2.3.0 say."""
    path = quantized(NETWORKS[op], scheme, tmp_path)
    assert versions(read_model(str(path)))[op] == version


def test_training_raises_a_version_that_is_too_low(tmp_path: Path) -> None:
    """Files of earlier versions of odt had version 9, with which old runtimes compute wrongly."""
    b, path = ModelBuilder("tflite", seed=2), tmp_path / "m.tflite"
    b.write(tmp_path / "float.tflite", b.add_dense(b.add_input((1, 8)), 4))
    odt.quantize(tmp_path / "float.tflite", scheme="int8-weights").model.save(path)
    model = read_model(str(path))
    (code,) = FlatBuffer(model.path, model.data).root().tables(1, "operator code")
    place, data = code.place(2, 4), bytearray(path.read_bytes())
    data[place : place + 4] = (9).to_bytes(4, "little")
    path.write_bytes(data)
    assert versions(read_model(str(path))) == {"FULLY_CONNECTED": 9}
    x = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
    with odt.Trainer(path, loss="mean_squared_error") as trainer:
        trainer.fit(x, x[:, :4], epochs=1)
        trainer.export(tmp_path / "trained.tflite")
        found = trainer.predict(x)
    assert versions(read_model(str(tmp_path / "trained.tflite"))) == {"FULLY_CONNECTED": 12}
    assert difference(litert(tmp_path / "trained.tflite", [x])[0], found) < 0.03


F, Q = "FLOAT32", "INT8"


@pytest.mark.parametrize(
    ("op", "inputs", "options", "version"),
    [
        ("FULLY_CONNECTED", [Operand(F, (1, 8)), Operand(F, (4, 8))], {}, 6),
        ("FULLY_CONNECTED", [Operand(F, (1, 8)), Operand(F, (4, 8)), Operand(F, (4,))], {}, 1),
        ("FULLY_CONNECTED", [Operand(F, (1, 8)), Operand(Q, (4, 8), (0.1,))] * 2, {}, 3),
        ("FULLY_CONNECTED", [Operand(F, (1, 8)), Operand(Q, (4, 8), (0.1,) * 4)], {}, 12),
        ("CONV_2D", [Operand(F, (1, 4, 4, 4)), Operand(F, (8, 3, 3, 2))], {}, 6),
        ("DEPTHWISE_CONV_2D", [Operand(F, SHAPE), Operand(F, SHAPE)], {"dilation_w_factor": 2}, 2),
        ("MUL", [Operand(Q, (1,), (0.5,)), Operand(Q, (1,), (0.5,))], {}, 3),
        ("MUL", [Operand("INT64", (1,)), Operand("INT64", (1,))], {}, 5),
        ("STRIDED_SLICE", [Operand(F, (1,) * 5)], {}, 4),
        ("STRIDED_SLICE", [Operand(F, (1, 2))], {"new_axis_mask": 1}, 6),
        ("SUB", [Operand(F, (1,) * 5), Operand(F, (1,))], {}, 3),
        ("GATHER", [Operand(F, (2, 2)), Operand("INT32", (2, 1))], {"batch_dims": 1}, 5),
        ("DEQUANTIZE", [Operand("FLOAT16", (2, 2))], {}, 3),
        ("DEQUANTIZE", [Operand("INT4", (2, 2))], {}, 6),
        ("TRANSPOSE", [Operand(F, (1,) * 6)], {}, 6),
        ("BROADCAST_TO", [Operand(F, (1,))], {}, 2),
        ("UNIDIRECTIONAL_SEQUENCE_LSTM", [Operand(F, (1,))] * 24, {}, 1),
        ("ARG_MAX", [Operand(Q, (1, 4))], {}, 2),
    ],
)
def test_rule(op: str, inputs: list[Operand], options: dict[str, Any], version: int) -> None:
    out = Operand(inputs[0].dtype, (1,), (0.1,) if inputs[0].scales else ())
    assert operator_version(op, inputs, [out], options) == version
