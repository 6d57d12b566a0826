"""Exports in which float16 and int8 weights have become float32."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from model_builder import ModelBuilder
from support.half_weights import HYBRID, half_model
from support.judges import difference, litert, odt
from support.networks import ArrayData, InOrder
from support.paths import MODELS
from support.sparse_files import add_sparse, sparse_parameters, sparse_weights
from support.subgraphs import WIDTH, Subgraphs

from odt.cli.main import main
from odt.core.export.exporter import export_model
from odt.core.export.model_tables import model_tables
from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.core.formats.flatbuffer.training_info_buffer import stored_training_info
from odt.core.formats.reader import read_model
from odt.core.model.dequantize import dequantize_weights
from odt.core.model.model import Model
from odt.core.model.training_info import TrainingInfo
from odt.core.recipe.lowered_model import lower_model
from odt.core.training.trainer import Trainer
from odt.errors import UnsupportedError
from odt.kernels.geometry.quantize import dequantize
from odt.kernels.rows.opdef import Array

LSTM = MODELS / "tflm-mnist-lstm-int8.tflite"


def trained(model: Model, inputs: list[Array], targets: Array, out: Path) -> list[Array]:
    """Trains, writes floats, and gives what the trained model makes of the inputs."""
    info = TrainingInfo(loss="mean_squared_error", batch_size=8, learning_rate=1e-2)
    found: list[Array] = []
    data = ArrayData(inputs, [targets])
    with Trainer(dequantize_weights(model).graph, info) as trainer:
        list(trainer.train(data, InOrder(8), epochs=5))
        m = trainer.runtime.schedule.micro_batch
        trainer.step(
            data, 8, update=False, look=lambda p, at, n: found.append(p.outputs[0][:m].copy())
        )
        export_model(model, trainer.weights(), out, float_weights=True)
    return found


def test_float16_behind_dequantize_becomes_a_float_constant(tmp_path: Path) -> None:
    model = half_model(tmp_path / "half.tflite")
    rng = np.random.default_rng(1)
    x, t = rng.standard_normal((8, 6), np.float32), rng.standard_normal((8, 4), np.float32)
    out = tmp_path / "out.tflite"
    (expected,) = trained(model, [x], t, out)
    graph = read_model(str(out)).graph
    assert [n.op for n in graph.nodes] == ["FULLY_CONNECTED"]
    weight = graph.tensors[graph.nodes[0].inputs[1]]
    assert (weight.name, weight.spec.dtype.name, weight.quantized) == ("w16", "float32", False)
    assert difference(litert(out, [x])[0], expected) < 1e-6  # float16 would be off by 1e-4


def test_hybrid_weights_become_float_constants(tmp_path: Path) -> None:
    """LiteRT then computes in float, so it agrees closely; with int8 it is off by percents."""
    model, out = read_model(str(HYBRID)), tmp_path / "out.tflite"
    rng = np.random.default_rng(1)
    shape = model.graph.tensors[model.graph.inputs[0]].spec.shape
    x = rng.standard_normal((8, *shape[1:]), np.float32)
    trained(model, [x], np.eye(12, dtype=np.float32)[rng.integers(0, 12, 8)], out)
    exported = read_model(str(out))
    assert not dequantize_weights(exported).stored
    (graph,) = model_tables(exported)["subgraphs"]
    assert not any(t.get("quantization") for t in graph["tensors"])
    assert len(dequantize_weights(model).stored) == 5
    assert difference(odt(out, [x])[0], litert(out, [x])[0]) < 1e-5


def test_frozen_weights_become_float_with_equal_results(tmp_path: Path) -> None:
    model, out = half_model(tmp_path / "half.tflite"), tmp_path / "out.tflite"
    export_model(model, {}, out, float_weights=True)
    x = np.random.default_rng(2).standard_normal((3, 6), np.float32)
    np.testing.assert_array_equal(litert(out, [x])[0], litert(tmp_path / "half.tflite", [x])[0])


def test_a_model_of_floats_is_left_as_it_is(tmp_path: Path) -> None:
    path = HYBRID.parent / "tflm-magic-wand-float.tflite"
    export_model(read_model(str(path)), {}, tmp_path / "out.tflite", float_weights=True)
    assert (tmp_path / "out.tflite").read_bytes() == path.read_bytes()


def test_an_integer_lstm_becomes_a_float_one(tmp_path: Path) -> None:
    """Its intermediate tensors are of integers, have no values, and store no buffer."""
    model, out = read_model(LSTM), tmp_path / "out.tflite"
    export_model(model, {}, out, float_weights=True)
    (i,), shape = model.graph.inputs, (4, 28, 28)
    integers = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
    real = dequantize(integers, model.quantization[i])
    assert difference(litert(out, [real])[0], odt(LSTM, [integers])[0]) < 0.05


@pytest.mark.parametrize("trainable_ops", [(0, 1), None])
def test_a_circle_plus_counts_operators_as_they_then_are(
    trainable_ops: tuple[int, ...] | None, tmp_path: Path
) -> None:
    """Of DEQUANTIZE and FULLY_CONNECTED the first goes; a front before a front is kept."""
    model, out = half_model(tmp_path / "half.tflite"), tmp_path / "out.circle"
    info = TrainingInfo(loss="mean_squared_error", trainable_ops=trainable_ops)
    export_model(model, {}, out, "circle", info, float_weights=True)
    stored = stored_training_info(read_model(str(out)))
    assert stored is not None
    assert stored.trainable_ops == (0,)
    x = np.random.default_rng(2).standard_normal((3, 6), np.float32)
    np.testing.assert_allclose(odt(out, [x])[0], litert(tmp_path / "half.tflite", [x])[0], 1e-5)


def test_a_weight_that_is_read_as_stored_stays(tmp_path: Path) -> None:
    model = ModelBuilder("tflite", seed=0)
    x = model.add_input((1, 6))
    w16 = model.add_constant(model.rng.normal(size=(4, 6)).astype(np.float16), "w16")
    w = model.add_operator("DEQUANTIZE", [w16], (4, 6))
    y = model.add_operator("FULLY_CONNECTED", [x, w, -1], (1, 4))
    other = model.add_operator("ABS", [w16], (4, 6), dtype="float16")
    model.write(tmp_path / "m.tflite", y, other)
    with pytest.raises(UnsupportedError, match=r'node 2 \(ABS\): tensor 1 \("w16"\) must be read'):
        export_model(read_model(tmp_path / "m.tflite"), {}, tmp_path / "o", float_weights=True)


@pytest.mark.parametrize(
    ("given", "dtype"), [((), "float16"), (("--export-weights", "float"), "float32")]
)
def test_the_command_writes_weights_as_asked(
    tmp_path: Path, given: tuple[str, ...], dtype: str
) -> None:
    half_model(tmp_path / "half.tflite")
    np.save(tmp_path / "x.npy", np.ones((8, 6), np.float32))
    np.save(tmp_path / "t.npy", np.ones((8, 4), np.float32))
    command = ["train", tmp_path / "half.tflite", "--loss", "mean-squared-error", "--epochs", 1]
    command += ["--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "t.npy"]
    command += ["--batch-size", 8, "--export-tflite", tmp_path / "out.tflite", *given]
    result = CliRunner().invoke(main, list(map(str, command)))
    assert result.exit_code == 0, result.output
    graph = read_model(tmp_path / "out.tflite").graph
    assert [t.spec.dtype.name for t in graph.tensors if t.name == "w16"] == [dtype]


def test_weights_that_cannot_be_stored_are_refused_before_training(tmp_path: Path) -> None:
    """Zero points other than 0: symmetric integers cannot take their place.

    The first step would refuse the data, which are not finite.
    """
    model = ModelBuilder("tflite", seed=0)
    w = model.add_constant(model.rng.integers(-9, 9, (4, 6), np.int8), "w8")
    model.quantize(w, [0.1], [3])
    y = model.add_operator("FULLY_CONNECTED", [model.add_input((1, 6)), w, -1], (1, 4))
    model.write(tmp_path / "m.tflite", y)
    command = ["train", tmp_path / "m.tflite", "--loss", "mean-squared-error", "--epochs", 1]
    for name, width in (("x", 6), ("t", 4)):
        np.save(tmp_path / f"{name}.npy", np.full((32, width), np.nan, np.float32))
    command += ["--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "t.npy"]
    result = CliRunner().invoke(main, [*map(str, command), "--export-tflite", str(tmp_path / "o")])
    assert result.exit_code == 1
    assert "zero points must be 0 to store new weights, but got [3]" in result.stderr
    assert "Give --export-weights float." in result.stderr


def test_weights_of_a_loop_become_float_constants(tmp_path: Path) -> None:
    """One is in the body, one there behind DEQUANTIZE, and one is passed on by the loop."""
    model = Subgraphs("tflite", seed=3)
    shape = (WIDTH, WIDTH)

    def condition() -> tuple[int, ...]:
        k = model.add_input((), "int32")
        model.add_input((1, WIDTH))
        model.add_input(shape, "int8")
        limit = model.add_constant(np.array(3, np.int32))
        return (model.add_operator("LESS", (k, limit), (), dtype="bool"),)

    def body() -> tuple[int, ...]:
        k, h, passed = (
            model.add_input((), "int32"),
            model.add_input((1, WIDTH)),
            model.add_input(shape, "int8"),
        )
        model.quantize(passed, [0.01], [0])
        own = model.add_constant(model.rng.integers(-99, 99, shape, np.int8), "own")
        model.quantize(own, [0.01], [0])
        half = model.add_constant(model.rng.normal(size=shape).astype(np.float16), "half")
        real = model.add_operator("DEQUANTIZE", (half,), shape)
        for w in (own, real, passed):
            h = model.add_operator("FULLY_CONNECTED", (h, w, -1), (1, WIDTH))
        one = model.add_constant(np.array(1, np.int32))
        y = model.add_operator("TANH", (h,), (1, WIDTH))
        return model.add_operator("ADD", (k, one), (), dtype="int32"), y, passed

    x = model.add_input((1, WIDTH))
    numbers = model.subgraph(condition), model.subgraph(body)
    start = model.add_constant(np.array(0, np.int32))
    given = model.add_constant(model.rng.integers(-99, 99, shape, np.int8), "given")
    model.quantize(given, [0.01], [0])
    shapes, names = ((), (1, WIDTH), shape), ("INT32", "FLOAT32", "INT8")
    y = model.add_operator(
        "WHILE",
        (start, x, given),
        *shapes,
        cond_subgraph_index=numbers[0],
        body_subgraph_index=numbers[1],
    )
    for k, name in enumerate(names):
        model.graph.tensors[y + k].type = code_of("TensorType", name)
    model.quantize(y + 2, [0.01], [0])
    path, out = tmp_path / "loop.tflite", tmp_path / "out.tflite"
    model.write(path, y + 1)
    file = read_model(str(path))
    lowered = lower_model(file)
    stored = lowered.dequantized.stored
    assert len(stored) == 3
    new = {i: 0.9 * np.asarray(lowered.graph.tensors[i].data, np.float32) for i in stored}
    export_model(file, new, out, float_weights=True)
    assert not lower_model(read_model(str(out))).dequantized.stored
    named = {lowered.unrolled.graph.tensors[stored[i]].name: new[i].T for i in stored}
    x_test = np.random.default_rng(1).standard_normal((3, WIDTH)).astype(np.float32)
    expected = x_test
    for _ in range(3):
        expected = np.tanh(expected @ named["own"] @ named["half"] @ named["given"])
    assert difference(odt(out, [x_test])[0], expected) < 1e-6
    assert difference(litert(out, [x_test])[0], expected) < 1e-6


def test_integers_and_their_real_numbers_may_both_be_outputs(tmp_path: Path) -> None:
    """Outputs and signature then name the same tensor twice."""
    b, path, out = ModelBuilder("tflite"), tmp_path / "m.tflite", tmp_path / "out.tflite"
    x = b.add_input((1, 4), "int8")
    w, c = b.add_constant(np.ones((3, 4), np.int8)), b.add_constant(np.arange(3, dtype=np.int32))
    y = b.add_operator("FULLY_CONNECTED", (x, w, c), (1, 3), dtype="int8")
    for tensor, scale in ((x, 0.02), (w, 0.01), (c, 0.0002), (y, 0.05)):
        b.quantize(tensor, [scale], [0])
    real = b.add_operator("DEQUANTIZE", (y,), (1, 3))
    b.add_signature("serve", {"x": x}, {"integers": y, "real": real})
    b.write(path, y, real)
    export_model(read_model(path), {}, out, float_weights=True)
    model = read_model(out)
    (signature,) = model.signatures
    assert [*signature.outputs.values()] == [*model.graph.outputs] == [y, y]
    results = litert(out, [np.ones((1, 4), np.float32)])
    for result in results:
        np.testing.assert_allclose(result, 0.04 + 0.0002 * np.arange(3)[None], rtol=1e-5)


@pytest.mark.parametrize("op", ["DENSIFY", "DEQUANTIZE"])
def test_weights_may_be_outputs(op: str, tmp_path: Path) -> None:
    b, path, out = ModelBuilder("tflite"), tmp_path / "m.tflite", tmp_path / "out.tflite"
    a = sparse_weights((6, 8))
    if op == "DENSIFY":
        entry, stored = sparse_parameters(a, (0, 1), (), (1,))
        constant = add_sparse(b, entry, np.array(stored, np.float32), a.shape)
    else:
        constant = b.add_constant(a.astype(np.float16))
    w = b.add_operator(op, (constant,), a.shape)
    x = b.add_input((1, 8))
    y = b.add_operator("FULLY_CONNECTED", (x, w, -1), (1, 6))
    b.add_signature("serve", {"x": x}, {"y": y, "w": w})
    b.write(path, y, w)
    export_model(read_model(path), {}, out, float_weights=True)
    model = read_model(out)
    (signature,) = model.signatures
    assert [*signature.outputs.values()] == [*model.graph.outputs]
    np.testing.assert_array_equal(model.graph.tensors[signature.outputs["w"]].data, a)
