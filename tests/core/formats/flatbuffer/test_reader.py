"""Any bytes give a Model or one ModelError; models of others are read as they are.

The other truth is the generated code of the package tflite, which odt does not use.
"""

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflite
from model_builder import ModelBuilder
from support.lowering import lower
from support.paths import MODELS

from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.formats.reader import read_model
from odt.core.model.graph import Graph
from odt.core.model.model import Model
from odt.errors import ModelError, UnsupportedError
from odt.kernels.rows.opdef import Array

TFLITE = sorted(MODELS.glob("*.tflite"))


def model(name: str) -> Model:
    return read_model(MODELS / name)


def parse(data: bytes) -> Model:
    return parse_model(memoryview(data), "m.circle")


def refused(data: bytes, words: str) -> None:
    with pytest.raises(ModelError, match=words) as e:
        parse(data)
    assert str(e.value).startswith("m.circle: ")
    assert "\n" not in str(e.value)


def small(**more: Any) -> ModelBuilder:
    """One FULLY_CONNECTED on (1, 3): tensors x 0, w 1, b 2, y 3."""
    built = ModelBuilder(**more)
    built.add_dense(built.add_input((1, 3)), 2)
    return built


def theirs(path: Path) -> Any:
    return tflite.Model.GetRootAs(path.read_bytes(), 0)


@pytest.mark.parametrize("path", TFLITE, ids=lambda p: p.name)
def test_tensors_are_those_that_tflite_reads(path: Path) -> None:
    other, graph = theirs(path), read_model(path).graph
    first = other.Subgraphs(0)
    assert len(graph.tensors) == first.TensorsLength()
    assert graph.inputs == tuple(first.InputsAsNumpy())
    assert graph.outputs == tuple(first.OutputsAsNumpy())
    for i, tensor in enumerate(graph.tensors):
        row = first.Tensors(i)
        shape = row.ShapeAsNumpy()
        assert tensor.name == row.Name().decode()
        assert tensor.spec.shape == (() if isinstance(shape, int) else tuple(shape))
        assert tensor.buffer == row.Buffer()
        data = other.Buffers(row.Buffer()).DataAsNumpy()
        assert (tensor.data is None) == (isinstance(data, int) and tensor.spec.size > 0)
        if tensor.data is not None and tensor.spec.size:
            assert tensor.data.tobytes() == data.tobytes()


@pytest.mark.parametrize("path", TFLITE, ids=lambda p: p.name)
def test_operators_are_those_that_tflite_reads(path: Path) -> None:
    other, graph = theirs(path), read_model(path).graph
    first = other.Subgraphs(0)
    assert len(graph.nodes) == first.OperatorsLength()
    for node in graph.nodes:
        row = first.Operators(node.origin)
        code = other.OperatorCodes(row.OpcodeIndex())
        assert node.op == tflite.opcode2name(max(code.BuiltinCode(), code.DeprecatedBuiltinCode()))
        assert node.inputs == tuple(row.InputsAsNumpy())
        assert node.outputs == tuple(row.OutputsAsNumpy())
        names = {v: k for k, v in vars(tflite.BuiltinOptions).items()}
        if row.BuiltinOptionsType():
            name = names[row.BuiltinOptionsType()]
            view = getattr(tflite, name)()
            view.Init(row.BuiltinOptions().Bytes, row.BuiltinOptions().Pos)
            for field, value in node.options.items():
                camel = "".join(map(str.capitalize, field.split("_")))
                if field == "hidden":  # what an LSTM's projection would read
                    kept = first.Tensors(row.Intermediates(4)).Quantization()
                    assert value == (kept.Scale(0), kept.ZeroPoint(0))
                elif isinstance(value, tuple):
                    assert len(value) == getattr(view, f"{camel}Length")()
                elif hasattr(view, camel):  # the package is older than the schema
                    other_value = getattr(view, camel)()
                    is_text = isinstance(other_value, bytes)
                    assert value == (other_value.decode() if is_text else other_value)


@pytest.mark.parametrize("values", [np.ones((1, 3), np.float32), np.zeros((0, 3), np.float32)])
def test_a_graph_input_is_no_constant(values: Array) -> None:
    """ONE's neg_NonTrainableOps_Pad_InvalidType: nothing may write to a view of the file."""
    built = small()
    built.graph.inputs.append(built.add_constant(values, "c"))
    if values.size:
        words = r'graph input tensor 4 \("c"\): must have no values in the file, but got 3'
        refused(built.build(3), words)
    else:  # no bytes: as an activation in the file
        assert parse(built.build(3)).graph.tensors[4].data is None


def test_a_buffer_that_is_too_large_is_called_so() -> None:
    built = small()
    built.graph.tensors[1].shape = [2, 2]
    refused(built.build(3), "but buffer 1 has 24. The buffer is larger than its tensor.$")
    built.graph.tensors[1].shape = [2, 4]
    refused(built.build(3), "but buffer 1 has 24. The file is damaged or truncated.$")


def test_constants_are_read_only_views_of_the_file() -> None:
    read = model("mlperf-tiny-resnet8-cifar10.tflite")
    constants = [t.data for t in read.graph.tensors if t.data is not None]
    assert len(constants) == 21
    for data in constants:
        assert not data.flags.owndata
        assert data.flags.aligned
        with pytest.raises(ValueError, match="read-only"):
            data[...] = 0


def test_a_constant_that_is_not_aligned_is_copied() -> None:
    data = small().build(3)
    moved = bytearray(data[:4] + data[4:8] + bytes(2) + data[8:])
    moved[:4] = struct.pack("<I", struct.unpack("<I", data[:4])[0] + 2)
    weights = [m.graph.tensors[1].data for m in (parse(data), parse(bytes(moved)))]
    assert weights[0] is not None
    assert weights[1] is not None
    assert weights[1].flags.aligned
    assert not weights[1].flags.writeable
    np.testing.assert_array_equal(weights[0], weights[1])


def test_a_dynamic_batch_axis_has_length_1_and_is_marked() -> None:
    for shape, signature in (((1, 3), (-1, 3)), ((-1, 3), None)):
        built = ModelBuilder()
        built.add_input(shape, signature=signature)
        tensor = parse(built.build(0)).graph.tensors[0]
        assert tensor.spec.shape == (1, 3)
        assert tensor.signature == (-1, 3)


def test_operators_out_of_order_are_put_in_order() -> None:
    built = small()
    built.add_operator("RELU", [3], (1, 2))
    built.add_operator("TANH", [4], (1, 2))
    built.graph.operators.reverse()
    nodes = parse(built.build(5)).graph.nodes
    assert [(n.op, n.origin) for n in nodes] == [("FULLY_CONNECTED", 2), ("RELU", 1), ("TANH", 0)]


def test_operators_that_could_run_sooner_keep_their_place() -> None:
    built = small()
    for op in ("RELU", "TANH", "ABS", "NEG"):
        built.add_operator(op, [3], (1, 2))
    first, *others = built.graph.operators
    built.graph.operators[:] = [others[0], first, *others[1:]]
    nodes = parse(built.build(5)).graph.nodes
    assert [n.op for n in nodes] == ["FULLY_CONNECTED", "RELU", "TANH", "ABS", "NEG"]


def test_operators_in_a_circle_are_refused() -> None:
    built = small()
    built.add_operator("ADD", [3, 5], (1, 2))
    built.add_operator("RELU", [4], (1, 2))
    refused(built.build(5), r"operator 1 \(ADD\): inputs must be computed before they are read")


def test_circles_own_operators_have_their_names_and_options() -> None:
    built = ModelBuilder()
    scale = [built.add_constant([1.0, 2.0]) for _ in range(2)]
    x = built.add_input((1, 4, 4, 2))
    y = built.add_operator("INSTANCE_NORM", (x, *scale), (1, 4, 4, 2), epsilon=0.5)
    node = parse(built.build(y)).graph.nodes[0]
    assert node.op == "INSTANCE_NORM"
    assert node.options == {"epsilon": 0.5, "fused_activation_function": 0}
    built.identifier = b"TFL3"
    refused(built.build(y), "operator code 0: must be an operator of the tflite schema, .* -2")


def test_custom_operators_have_their_name_and_bytes() -> None:
    graph = model("while_000.circle").graph
    assert [n.op for n in graph.nodes] == ["WHILE"]
    built = small()
    y = built.add_operator("CUSTOM:Fold", [3], (1, 2))
    built.graph.operators[1].custom_options = [1, 2, 3]
    node = parse(built.build(y)).graph.nodes[1]
    assert (node.op, node.options) == ("CUSTOM:Fold", {"custom_options": b"\1\2\3"})


def test_options_that_are_not_there_have_the_schemas_defaults() -> None:
    built = small()
    built.graph.operators[0].builtin_options_type = 0
    built.graph.operators[0].builtin_options = None
    assert parse(built.build(3)).graph.nodes[0].options == {
        "fused_activation_function": 0,
        "weights_format": 0,
        "keep_num_dims": False,
        "asymmetric_quantize_inputs": False,
        "quantized_bias_type": 0,
    }


def test_options_of_another_operator_are_refused() -> None:
    built = small()
    pool = ModelBuilder()
    pool.add_operator("MAX_POOL_2D", [pool.add_input((1, 2, 2, 1))], (1, 1, 1, 1))
    other = pool.graph.operators[0]
    built.graph.operators[0].builtin_options_type = other.builtin_options_type
    built.graph.operators[0].builtin_options = other.builtin_options
    refused(built.build(3), "must be FullyConnectedOptions, but got Pool2DOptions")


def test_options_that_circle_renamed_have_tflites_names() -> None:
    built = ModelBuilder()
    inputs = [built.add_input((2, 3)) for _ in range(2)]
    y = built.add_operator("BATCH_MATMUL", inputs, (2, 2), adj_y=True)
    node = parse(built.build(y)).graph.nodes[0]
    assert node.options == {"adj_x": False, "adj_y": True, "asymmetric_quantize_inputs": False}


def test_vector_options_are_tuples() -> None:
    built = ModelBuilder()
    y = built.add_operator("SQUEEZE", [built.add_input((1, 1, 3))], (1, 3), squeeze_dims=[1])
    z = built.add_operator("SQUEEZE", [y], (1, 3))
    nodes = parse(built.build(z)).graph.nodes
    assert [n.options["squeeze_dims"] for n in nodes] == [(1,), ()]


def test_scales_are_kept_with_the_tensors_that_have_them() -> None:
    read = model("mlperf-tiny-kws-dscnn-hybrid.tflite")
    quantized = {i for i, t in enumerate(read.graph.tensors) if t.quantized}
    assert quantized == set(read.quantization)
    kinds = {read.graph.tensors[i].spec.dtype.name for i in quantized}
    assert "int8" in kinds
    for i, q in read.quantization.items():
        assert len(q.scale) == len(q.zero_point)
        assert len(q.scale) in (1, read.graph.tensors[i].spec.shape[q.axis])


def test_types_that_numpy_does_not_have_can_be_looked_at() -> None:
    built = small()
    built.graph.tensors[1].type = 17  # INT4: two values a byte
    tensor = parse(built.build(3)).graph.tensors[1]
    assert "INT4" in str(tensor.spec)
    assert tensor.spec.shape == (2, 3)
    assert tensor.data is not None
    assert tensor.data.shape == (24,)
    with pytest.raises(UnsupportedError, match=r"real numbers, but got tensor 1 \(.*\) of INT4"):
        lower(parse(built.build(3)).graph, 1)


def test_a_constant_without_elements_needs_no_bytes() -> None:
    built = ModelBuilder()
    x = built.add_input((1,))
    target = built.add_constant(np.zeros(0, np.int32))
    graph = parse(built.build(built.add_operator("RESHAPE", (x, target), ()))).graph
    assert graph.tensors[target].data is not None
    assert graph.tensors[target].spec.shape == (0,)


def test_signatures_metadata_and_subgraphs_are_listed() -> None:
    read = model("tflm-hello-world-sine-float.tflite")
    assert [s.key for s in read.signatures] == ["serving_default"]
    assert list(read.signatures[0].inputs.values()) == list(read.graph.inputs)
    assert list(read.signatures[0].outputs.values()) == list(read.graph.outputs)
    assert bytes(read.buffer(read.metadata["min_runtime_version"])).startswith(b"1.")
    assert (read.version, read.subgraphs) == (3, 1)
    assert model("while_000.circle").subgraphs == 3


def test_names_stay_on_one_line() -> None:
    built = small()
    built.graph.tensors[1].name = "w\n\x1b[2J"
    assert parse(built.build(3)).graph.tensors[1].name == r"w\n\x1b[2J"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda g: setattr(g.operators[0], "opcode_index", 1), "operator 0: .* below 1, but got 1"),
        (lambda g: setattr(g.operators[0], "inputs", [0, 1, 9]), "index must be below 4, .* 9"),
        (lambda g: setattr(g.operators[0], "inputs", [0, 1, -2]), "index must be below 4, .* -2"),
        (lambda g: setattr(g.operators[0], "outputs", [-1]), "index must be below 4, but got -1"),
        (lambda g: setattr(g.operators[0], "outputs", [1]), "must have one producer"),
        (lambda g: setattr(g, "inputs", [7]), "graph input: index must be below 4, but got 7"),
        (lambda g: setattr(g.tensors[1], "buffer", 3), "buffer must be below 3, but got 3"),
        (lambda g: setattr(g.tensors[1], "shape", [2, 4]), "needs 32 bytes, but buffer 1 has 24"),
        (lambda g: setattr(g.tensors[1], "shape", [2, -3]), "none below -1, but got 2"),
        (lambda g: setattr(g.tensors[3], "shape", [1] * 32), "at most 31 entries"),
        (lambda g: setattr(g.tensors[3], "shape", [2**31 - 1] * 9), "must fit into"),
        (lambda g: setattr(g.tensors[3], "shape", [0] + [2**31 - 1] * 9), "must fit into"),
        (lambda g: setattr(g.tensors[3], "shape_signature", [1]), "must have the same length"),
        (lambda g: setattr(g.tensors[3], "type", 99), "type must be one of the schema, .* 99"),
        (lambda g: setattr(g.tensors[3], "name", "n" * 70000), "at most 65536 bytes, but got"),
    ],
)
def test_each_rule_of_a_graph(change: Callable[[Any], None], words: str) -> None:
    built = small()
    change(built.graph)
    refused(built.build(3), words)


def test_each_rule_of_a_model() -> None:
    built = small()
    built.model.operator_codes[0].builtin_code = 9999
    refused(built.build(3), "operator code 0: must be an operator of the circle schema, .* 9999")
    built = small()
    built.model.subgraphs = []
    refused(built.build(3), "must have a subgraph, but got none")
    built = small()
    built.add_metadata("m", b"x")
    built.model.metadata[0].buffer = 9
    refused(built.build(3), "metadata 0: buffer must be below 4, but got 9")
    built = small()
    built.add_signature("s", {"x": 0}, {"y": 3})
    built.model.signature_defs[0].subgraph_index = 1
    refused(built.build(3), "signature 0: subgraph must be below 1, but got 1")
    built = small()
    built.quantize(1, [0.5, 0.25, 0.125], [0])
    refused(
        built.build(3),
        r"tensor 1 .*: scale and zero point must have the same length, .* 3 "
        "and 1",
    )
    built = small()
    buffer = built.model.buffers[1]
    buffer.data, buffer.offset, buffer.size = None, 2**40, 24
    refused(built.build(3), r"buffer 1: its bytes must end within .*, but got 24 bytes at offset")


def test_bytes_that_are_no_model() -> None:
    data = small().build(3)
    refused(b"", ".onnx model, but is none: bytes 4 to 7 of .tflite and .circle must be TFL3 or")
    refused(data[:4] + b"ONNX" + data[8:], r"must be TFL3 or CIR0, but got b'ONNX'")
    refused(data[:7], "must be TFL3 or CIR0")
    for at in range(8, 400):
        refused(data[:at], "The file is damaged or truncated")
    refused(b"\xff\xff\xff\xff" + data[4:], "root: must begin within")


def test_missing_and_special_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for name, words in (
        ("missing", "must be a readable file, but got: no such file or directory"),
        ("empty", "a model must have 8 bytes or more, but got 0"),
        (".", "a model must be a file, but got a folder"),
        ("/dev/null", "a model must be a file, but got a device or pipe"),
        ("nu\0ll", "must be a readable file, but got: .*null (byte|character)"),
    ):
        with pytest.raises(ModelError, match=words):
            read_model(tmp_path / name)


def test_graphs_are_named_after_their_file() -> None:
    graph: Graph = model("while_000.circle").graph
    assert re.search(r"while_000\.circle$", graph.name)


def test_a_model_survives_giving_its_pages_back() -> None:
    read = model("tflm-magic-wand-float.tflite")

    def total() -> float:
        constants: list[Array] = [t.data for t in read.graph.tensors if t.data is not None]
        return sum(float(np.abs(a.astype(np.float64)).sum()) for a in constants)

    before = total()
    read.release_pages()
    assert total() == before > 0
