"""Sparse constants: read dense, trained where they have values, stored in the same pattern."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.judges import difference, litert, odt
from support.networks import ArrayData, InOrder
from support.sparse_files import add_sparse, sparse_net, sparse_parameters, sparse_weights

import odt as public
from odt.core.export.exporter import export_model
from odt.core.export.model_builder import Entry, ModelBuilder
from odt.core.export.model_tables import model_tables, packed_model
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.formats.reader import read_model
from odt.core.lowering.low_rank import adaptable
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.dequantize import dequantize_weights
from odt.core.model.training_info import TrainingInfo
from odt.core.training.self_test import self_test, verdict
from odt.core.training.trainer import Trainer
from odt.errors import ModelError
from odt.kernels.rows.opdef import Array

INFO = TrainingInfo(loss="mean_squared_error", batch_size=8, learning_rate=0.05)


def built(entry: Entry, stored: Array, shape: tuple[int, int]) -> bytes:
    b = ModelBuilder("tflite", 1)
    w = b.add_operator("DENSIFY", (add_sparse(b, entry, stored, shape),), shape)
    bias = b.add_constant(np.zeros(shape[0], np.float32))
    y = b.add_operator("FULLY_CONNECTED", (b.add_input((1, shape[1])), w, bias), (1, shape[0]))
    return b.build(y)


@pytest.mark.parametrize("kind", ["Int32Vector", "Uint16Vector", "Uint8Vector"])
@pytest.mark.parametrize(
    ("order", "blocks", "sparse"),
    [
        ((0, 1), (), (1,)),
        ((1, 0), (), (1,)),
        ((0, 1), (), (0, 1)),
        ((0, 1), (), ()),
        ((0, 1, 2), ((1, 4),), (1,)),
        ((0, 1, 2, 3), ((0, 2), (1, 4)), (1,)),
        ((1, 0, 2), ((0, 3),), (0, 1)),
    ],
)
def test_constants_are_what_litert_makes_of_them(
    order: Any, blocks: Any, sparse: Any, kind: str, tmp_path: Path
) -> None:
    a, path = sparse_weights((6, 8)), tmp_path / "m.tflite"
    entry, stored = sparse_parameters(a, order, blocks, sparse, kind)
    path.write_bytes(built(entry, np.array(stored, np.float32), (6, 8)))
    graph = dequantize_weights(read_model(path)).graph
    (node,) = graph.nodes
    weights = graph.tensors[node.inputs[1]]
    assert weights.data is not None
    assert weights.places is not None
    np.testing.assert_array_equal(weights.data, a)
    assert weights.data.reshape(-1)[weights.places].tolist() == stored
    x = np.eye(8, dtype=np.float32)
    np.testing.assert_array_equal(litert(path, [x])[0], a.T)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adafactor", "lion"])
def test_training_keeps_the_zeros_and_the_pattern(
    half: bool, batch: int, optimizer: str, tmp_path: Path
) -> None:
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    before = sparse_net(path, half)
    rng = np.random.default_rng(1)
    x, t = rng.standard_normal((8, 8), np.float32), rng.standard_normal((8, 3), np.float32)
    model = read_model(path)
    graph = dequantize_weights(model).graph
    w = graph.nodes[0].inputs[1]
    info = TrainingInfo(
        loss="mean_squared_error", batch_size=batch, learning_rate=0.05, optimizer=optimizer
    )
    with Trainer(graph, info) as trainer:
        losses = [e.training.loss for e in trainer.train(ArrayData([x], [t]), InOrder(8), epochs=5)]
        weights = trainer.weights()
        export_model(model, weights, out)
        floats = tmp_path / "float.tflite"
        export_model(model, weights, floats, float_weights=True)
    assert losses[-1] < losses[0]
    assert not weights[w][before == 0].any()
    assert (weights[w] != before)[before != 0].all()
    exported = read_model(out)
    (old,), (new,) = model.sparsity.values(), exported.sparsity.values()
    np.testing.assert_array_equal(old.places, new.places)
    assert len(out.read_bytes()) == len(path.read_bytes())
    for file in (out, floats):
        assert difference(odt(file, [x])[0], litert(file, [x])[0]) < 1e-6
    assert [n.op for n in read_model(floats).graph.nodes] == ["FULLY_CONNECTED"] * 2
    assert difference(odt(floats, [x])[0], odt(out, [x])[0]) < (1e-2 if half else 1e-6)


def test_operator_codes_of_old_files_are_read(tmp_path: Path) -> None:
    """Converters of 2020 wrote the code of DENSIFY into the field of one byte alone."""
    a, path, out = sparse_weights((6, 8)), tmp_path / "m.tflite", tmp_path / "out.tflite"
    entry, stored = sparse_parameters(a, (0, 1), (), (1,))
    path.write_bytes(built(entry, np.array(stored, np.float32), (6, 8)))
    model = read_model(path)
    tables = model_tables(model)
    for code in tables["operator_codes"]:
        del code["builtin_code"]
    old = parse_model(memoryview(packed_model(model, tables)), model.path)
    export_model(old, {}, out, float_weights=True)
    (node,) = read_model(out).graph.nodes
    assert node.op == "FULLY_CONNECTED"


def test_the_norm_of_gradients_leaves_absent_values_out(tmp_path: Path) -> None:
    """The clipped step has the length of the limit if only stored values count."""
    path = tmp_path / "m.tflite"
    sparse_net(path, half=False)
    rng = np.random.default_rng(1)
    data = ArrayData(
        [rng.standard_normal((8, 8), np.float32)], [rng.standard_normal((8, 3), np.float32)]
    )
    graph = dequantize_weights(read_model(path)).graph
    info = TrainingInfo(
        loss="mean_squared_error",
        optimizer="sgd",
        batch_size=8,
        learning_rate=1.0,
        clip_norm=0.01,
    )
    with Trainer(graph, info) as trainer:
        start = {i: a.copy() for i, a in trainer.parameters.tensors.items()}
        list(trainer.train(data, InOrder(8), epochs=1))
        steps = [trainer.parameters.tensors[i] - a for i, a in start.items()]
    assert np.sqrt(sum(float(np.sum(s * s)) for s in steps)) == pytest.approx(0.01, rel=1e-3)


def test_the_self_test_moves_stored_values_only(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    sparse_net(path, half=True)
    graphs = LoweredGraphs(dequantize_weights(read_model(path)).graph)
    rng = np.random.default_rng(1)
    data = ArrayData([rng.standard_normal((8, 8))], [rng.standard_normal((8, 3))])
    for seed in range(3):
        assert verdict(self_test(graphs, INFO, data, 16, seed))


def test_adapters_leave_sparse_weights_out(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    sparse_net(path, half=False)
    graph = dequantize_weights(read_model(path)).graph
    assert [size for _, size in adaptable(graph)] == [(3, 6)]


def test_a_layer_that_reads_sparse_weights_itself(tmp_path: Path) -> None:
    b, a, path = ModelBuilder("tflite", 1), sparse_weights((6, 8)), tmp_path / "m.tflite"
    entry, stored = sparse_parameters(a, (0, 1), sparse=(1,))
    w = add_sparse(b, entry, np.array(stored, np.float32), a.shape)
    b.write(path, b.add_operator("FULLY_CONNECTED", (b.add_input((1, 8)), w, -1), (1, 6)))
    x = np.eye(8, dtype=np.float32)
    np.testing.assert_array_equal(odt(path, [x])[0], a.T)
    model = read_model(path)
    export_model(model, {w: 2 * a}, tmp_path / "out.tflite")
    np.testing.assert_array_equal(odt(tmp_path / "out.tflite", [x])[0], 2 * a.T)
    export_model(model, {w: a}, tmp_path / "out.tflite", float_weights=True)
    np.testing.assert_array_equal(litert(tmp_path / "out.tflite", [x])[0], a.T)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"traversal_order": [0, 0]}, "in some order"),
        ({"traversal_order": [0, 1, 2]}, "in some order"),
        ({"block_map": [0]}, "in some order"),
        ({"block_map": [2]}, "in some order"),
        ({"dense_size": 5}, "6 positions"),
        ({"dense_size": 2**30}, "6 positions"),
        ({"segments": [0] * 7}, "values of float32"),
        ({"segments": [1, 2, 2, 2, 2, 2, 2]}, "segments must divide"),
        ({"segments": [0, 2, 1, 2, 2, 2, 2]}, "segments must divide"),
        ({"segments": [0, 0, 0, 0, 0, 0, 200]}, "segments must divide"),
        ({"segments": [0, 0]}, "segments must divide"),
        ({"indices": [8]}, "segments must divide"),
        ({"type": 0}, "list of integers"),
    ],
)
def test_damaged_sparsity_is_refused(wrong: dict[str, Any], words: str) -> None:
    a = sparse_weights((6, 8))
    entry, stored = sparse_parameters(a, (0, 1), sparse=(1,))
    dense, listed = entry.dim_metadata
    for name, value in wrong.items():
        if name == "dense_size":
            dense.dense_size = value
        elif name == "segments":
            listed.array_segments.values = value
        elif name == "indices":
            listed.array_indices.values = value * len(listed.array_indices.values)
        elif name == "type":
            listed.array_segments_type, listed.array_segments = value, None
        else:
            setattr(entry, name, value)
    data = built(entry, np.array(stored, np.float32), (6, 8))
    with pytest.raises(ModelError, match=words) as e:
        parse_model(memoryview(data), "m.tflite")
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("ops", [("DENSIFY", "DEQUANTIZE"), ("DENSIFY",), ()])
def test_sparse_integers_train_and_keep_the_pattern(
    ops: tuple[str, ...], axis: int | None, tmp_path: Path
) -> None:
    """LiteRT rounds activations beside int8 weights, so it judges the files of floats, too."""
    b, path, out = ModelBuilder("tflite", 1), tmp_path / "m.tflite", tmp_path / "out.tflite"
    q = np.rint(40 * sparse_weights((6, 8))).astype(np.int8)
    scale = np.array([0.02]) if axis is None else np.linspace(0.01, 0.03, 6)
    entry, stored = sparse_parameters(q.astype(np.float32), (0, 1), sparse=(1,))
    w = add_sparse(b, entry, np.array(stored, np.int8), q.shape)
    b.quantize(w, scale.tolist(), [0] * len(scale), axis or 0)
    for op in ops:
        dtype = "int8" if op == "DENSIFY" else "float32"
        w = b.add_operator(op, (w,), q.shape, dtype=dtype)
        if dtype == "int8":
            b.quantize(w, scale.tolist(), [0] * len(scale), axis or 0)
    y = b.add_operator("FULLY_CONNECTED", (b.add_input((1, 8)), w, -1), (1, 6))
    b.write(path, b.add_dense(y, 3))
    model, eye = read_model(path), np.eye(8, dtype=np.float32)
    graph = dequantize_weights(model).graph
    real = graph.tensors[graph.nodes[0].inputs[1]]
    assert real.data is not None
    np.testing.assert_allclose(real.data, q * scale.reshape(-1, 1), rtol=1e-6)
    rng = np.random.default_rng(1)
    data = ArrayData([eye], [rng.standard_normal((8, 3), np.float32)])
    with Trainer(graph, INFO) as trainer:
        losses = [e.training.loss for e in trainer.train(data, InOrder(8), epochs=5)]
        export_model(model, trainer.weights(), out)
    assert losses[-1] < losses[0]
    (old,), (new,) = model.sparsity.values(), read_model(out).sparsity.values()
    np.testing.assert_array_equal(old.places, new.places)
    assert len(out.read_bytes()) == len(path.read_bytes())
    assert difference(odt(out, [eye])[0], odt(path, [eye])[0]) > 0.01
    for k, file in enumerate((path, out)):
        floats = tmp_path / f"{k}.tflite"
        export_model(read_model(file), {}, floats, float_weights=True)
        assert difference(odt(file, [eye])[0], litert(floats, [eye])[0]) < 1e-6
        if ops:
            near = 1e-6 if "DEQUANTIZE" in ops else 0.02
            theirs = litert(file, [eye], xnnpack=False)[0]  # XNNPACK refuses such files
            assert difference(odt(file, [eye])[0], theirs) < near


def test_sparse_integers_train_beside_integer_activations(tmp_path: Path) -> None:
    """The integers of training are those that LiteRT computes, and zeros stay zeros."""
    b, q = ModelBuilder("tflite", 1), np.rint(40 * sparse_weights((6, 8))).astype(np.int8)
    entry, stored = sparse_parameters(q.astype(np.float32), (0, 1), sparse=(1,))
    w = add_sparse(b, entry, np.array(stored, np.int8), q.shape)
    w = b.add_operator("DENSIFY", (w,), q.shape, dtype="int8")
    x = b.add_input((1, 8), "int8")
    y = b.add_operator("FULLY_CONNECTED", (x, w, -1), (1, 6), dtype="int8")
    for i in (w - 1, w, x, y):
        b.quantize(i, [0.02], [0])
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    b.write(path, y)
    rng = np.random.default_rng(3)
    inputs = rng.integers(-100, 100, (16, 8)).astype(np.int8)
    targets = rng.normal(size=(16, 6)).astype(np.float32)
    model = public.load_model(path)
    with public.Trainer(model, loss="mse", learning_rate=0.02, batch_size=4) as trainer:
        trainer.fit(inputs, targets, epochs=4)
        trainer.export(out)
        trained = trainer.predict(inputs)
    read = read_model(out)
    data = read.graph.tensors[w - 1].data
    assert data is not None
    after = read.sparsity[w - 1].dense(data, q.shape)
    assert not after[q == 0].any()
    assert (after[q != 0] != q[q != 0]).any()
    assert read.quantization[w].scale == read.quantization[w - 1].scale
    (theirs,) = litert(out, [inputs], xnnpack=False)
    np.testing.assert_array_equal(np.rint(trained / 0.02), theirs)
