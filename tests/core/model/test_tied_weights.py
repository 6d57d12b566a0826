"""Tied weights are one tensor; tensors that share only a buffer are weights of their own."""

from pathlib import Path

import numpy as np
import pytest
from model_builder import ModelBuilder
from support.judges import difference, litert, odt
from support.networks import ArrayData, InOrder

from odt.core.checkpoints import checkpoint, onert_checkpoint
from odt.core.checkpoints.progress import Progress
from odt.core.checkpoints.resume import Resume
from odt.core.export.exporter import export_model, remove_training_info
from odt.core.formats.flatbuffer.training_info_buffer import stored_training_info
from odt.core.formats.reader import read_model
from odt.core.model.dequantize import dequantize_weights
from odt.core.model.model import Model
from odt.core.model.training_info import TrainingInfo
from odt.core.runtime.optimizer import Optimizer
from odt.core.runtime.parameters import Parameters
from odt.core.training.trainer import Trainer
from odt.kernels.registry import OPTIMIZERS
from odt.kernels.rows.opdef import Array

INFO = TrainingInfo(optimizer="sgd", learning_rate=0.1, loss="mean_squared_error", batch_size=4)
RNG = np.random.default_rng(1)
X, T = (RNG.standard_normal((4, 6), np.float32) for _ in range(2))


def tied(path: Path, *, two_tensors: bool) -> Model:
    """Two FULLY_CONNECTED of one weight: one tensor, or two tensors of one buffer."""
    model = ModelBuilder("tflite", seed=0)
    x = model.add_input((1, 6))
    w = model.add_weight((6, 6), 6, "w")
    twin = w
    if two_tensors:
        twin = model.add_tensor((6, 6), name="twin", buffer=model.graph.tensors[w].buffer)
    y = model.add_operator("FULLY_CONNECTED", [x, w, -1], (1, 6), fused_activation_function=1)
    z = model.add_operator("FULLY_CONNECTED", [y, twin, -1], (1, 6))
    model.write(path, z)
    return read_model(path)


def train(model: Model) -> dict[int, Array]:
    """One step; the weights after it."""
    with Trainer(dequantize_weights(model).graph, INFO) as trainer:
        list(trainer.train(ArrayData([X], [T]), InOrder(4), epochs=1))
        return trainer.weights()


def gradients(w: Array) -> tuple[Array, Array]:
    """By the weight where it is read first, and where it is read second."""
    w = w.astype(np.float64)
    h = np.maximum(X @ w.T, 0)
    d = 2 * (h @ w.T - T) / T.size
    return ((d @ w) * (h > 0)).T @ X, d.T @ h


def data_of(model: Model, i: int) -> Array:
    data = model.graph.tensors[i].data
    assert data is not None
    return data


def test_tied_weights_train_as_one_and_stay_tied(tmp_path: Path) -> None:
    model, out = tied(tmp_path / "tied.tflite", two_tensors=False), tmp_path / "out.tflite"
    ((i, w),) = train(model).items()
    expected = data_of(model, i) - 0.1 * sum(gradients(data_of(model, i)))
    np.testing.assert_allclose(w, expected, rtol=1e-5, atol=1e-6)
    export_model(model, {i: w}, out)
    np.testing.assert_array_equal(data_of(read_model(out), i), w)
    assert out.stat().st_size == (tmp_path / "tied.tflite").stat().st_size
    assert difference(odt(out, [X])[0], litert(out, [X])[0]) < 1e-4


@pytest.mark.parametrize("kind", ["tflite", "circle", "circle+"])
def test_tensors_of_one_buffer_are_separate_weights(kind: str, tmp_path: Path) -> None:
    """Converters store equal constants, such as zero biases, once."""
    model, out = tied(tmp_path / "tied.tflite", two_tensors=True), tmp_path / "out"
    weights = train(model)
    assert len(weights) == 2
    for (i, w), g in zip(sorted(weights.items()), gradients(data_of(model, 1)), strict=True):
        np.testing.assert_allclose(w, data_of(model, i) - 0.1 * g, rtol=1e-5, atol=1e-6)
    export_model(model, weights, out, kind.rstrip("+"), INFO if kind == "circle+" else None)
    exported = read_model(out)
    for i, w in weights.items():
        np.testing.assert_array_equal(data_of(exported, i), w)
    if kind == "tflite":
        assert difference(odt(out, [X])[0], litert(out, [X])[0]) < 1e-4
    if kind == "circle+":
        assert stored_training_info(exported) is not None
        remove_training_info(exported, out)
        export_model(read_model(out), {}, out, "circle", INFO)  # a front before fronts that last
        for i, w in weights.items():
            np.testing.assert_array_equal(data_of(read_model(out), i), w)


def test_equal_values_stay_in_one_buffer(tmp_path: Path) -> None:
    path, out = tmp_path / "tied.tflite", tmp_path / "out.tflite"
    model = tied(path, two_tensors=True)
    w = data_of(model, 1)
    export_model(model, {1: w.copy(), 2: w.copy()}, out)
    assert out.read_bytes() == path.read_bytes()
    export_model(model, {1: w / 2, 2: w / 2}, out)
    assert out.stat().st_size == path.stat().st_size
    export_model(model, {1: w / 2}, out)
    np.testing.assert_array_equal(data_of(read_model(out), 1), w / 2)
    np.testing.assert_array_equal(data_of(read_model(out), 2), w)


@pytest.mark.parametrize("kind", ["tflite", "circle", "circle+"])
def test_constants_that_share_a_buffer_with_a_weight_are_kept(kind: str, tmp_path: Path) -> None:
    """Four zero bytes: a bias, where a STRIDED_SLICE begins, and a number of a formula."""
    model = ModelBuilder("tflite", seed=0)
    x = model.add_input((1, 6))
    bias = model.add_constant(np.zeros(1, np.float32), "bias")
    zero = model.graph.tensors[bias].buffer
    begin = model.add_tensor((1,), "int32", "begin", zero)
    number = model.add_tensor((), "float32", "number", zero)
    counts = [model.add_constant(np.array([n], np.int32)) for n in (4, 1)]
    w = model.add_weight((1, 6), 6, "w")
    y = model.add_operator("FULLY_CONNECTED", [x, w, bias], (1, 1))
    shape = model.add_operator("SHAPE", [x], (2,), dtype="int32", out_type=2)
    rows = model.add_operator("STRIDED_SLICE", [shape, begin, *counts], (2,), dtype="int32")
    y = model.add_operator("MAXIMUM", [y, number], (1, 1))
    y = model.add_operator("ADD", [x, y], (1, 6))
    model.write(tmp_path / "m.tflite", model.add_operator("RESHAPE", [y, rows], (1, 6)))
    source, out = read_model(tmp_path / "m.tflite"), tmp_path / "out"
    with Trainer(source.graph, INFO) as trainer:
        list(trainer.train(ArrayData([X], [T]), InOrder(4), epochs=1))
        weights = trainer.weights()
    assert bias in weights
    assert weights[bias] != 0
    export_model(source, weights, out, kind.rstrip("+"), INFO if kind == "circle+" else None)
    exported = read_model(out)
    for i in (begin, number):
        np.testing.assert_array_equal(data_of(exported, i), data_of(source, i))
    for i, a in weights.items():
        np.testing.assert_array_equal(data_of(exported, i), a)
    with Trainer(exported.graph, INFO):
        pass
    if kind == "tflite":
        assert difference(odt(out, [X])[0], litert(out, [X])[0]) < 1e-5


def test_metadata_that_shares_a_buffer_with_a_weight_is_kept(tmp_path: Path) -> None:
    built = ModelBuilder("tflite", seed=0)
    x = built.add_input((1, 6))
    built.add_metadata("note", bytes(16))
    b = built.add_tensor((4,), name="b", buffer=built.model.metadata[0].buffer)
    w = built.add_weight((4, 6), 6)
    built.write(tmp_path / "m", built.add_operator("FULLY_CONNECTED", [x, w, b], (1, 4)))
    export_model(read_model(tmp_path / "m"), {b: np.ones(4, np.float32)}, tmp_path / "out")
    exported = read_model(tmp_path / "out")
    assert bytes(exported.buffer(exported.metadata["note"])) == bytes(16)
    np.testing.assert_array_equal(data_of(exported, b), np.ones(4))


def hybrid(path: Path) -> Model:
    """Two FULLY_CONNECTED whose int8 weights are one buffer with different scales."""
    built = ModelBuilder("tflite", seed=0)
    x = built.add_input((1, 6))
    first = built.add_constant(built.rng.integers(-127, 128, (6, 6), np.int8), "first")
    buffer = built.graph.tensors[first].buffer
    second = built.add_tensor((6, 6), "int8", "second", buffer)
    for i, scale in ((first, 0.01), (second, 0.002)):
        built.quantize(i, [scale], [0])
    y = built.add_operator("FULLY_CONNECTED", [x, first, -1], (1, 6))
    built.write(path, built.add_operator("FULLY_CONNECTED", [y, second, -1], (1, 6)))
    return read_model(path)


def test_integers_of_one_buffer_have_scales_of_their_own(tmp_path: Path) -> None:
    model = hybrid(tmp_path / "m.tflite")
    q = data_of(model, 1).astype(np.float64)
    expected = X @ (0.01 * q).T @ (0.002 * q).T
    assert difference(odt(tmp_path / "m.tflite", [X])[0], expected) < 1e-5
    assert difference(litert(tmp_path / "m.tflite", [X])[0], expected) < 0.05


@pytest.mark.parametrize("float_weights", [False, True])
def test_integers_of_one_buffer_are_separate_weights(float_weights: bool, tmp_path: Path) -> None:
    model, out = hybrid(tmp_path / "m.tflite"), tmp_path / "out.tflite"
    weights = train(model)
    assert len(weights) == 2
    export_model(model, weights, out, float_weights=float_weights)
    exported = read_model(out)
    graph = dequantize_weights(exported).graph
    for i, w in weights.items():
        a = graph.tensors[i].data
        assert a is not None
        assert exported.graph.tensors[i].spec.dtype == (np.float32 if float_weights else np.int8)
        np.testing.assert_allclose(a, w, atol=0 if float_weights else abs(w).max() / 250)


def test_an_integer_weight_that_two_operators_read_is_one(tmp_path: Path) -> None:
    """One tensor: unfolded once, whether an operator names it or a DEQUANTIZE."""
    built = ModelBuilder("tflite", seed=0)
    w = built.add_constant(built.rng.integers(-127, 128, (6, 6), np.int8), "w")
    built.quantize(w, [0.01], [0])
    y = built.add_input((1, 6))
    for direct in (True, False, True, False):
        i = w if direct else built.add_operator("DEQUANTIZE", [w], (6, 6))
        y = built.add_operator("FULLY_CONNECTED", [y, i, -1], (1, 6))
    built.write(tmp_path / "m.tflite", y)
    model = read_model(tmp_path / "m.tflite")
    matrix = 0.01 * data_of(model, w).astype(np.float64).T
    expected = X @ np.linalg.matrix_power(matrix, 4)
    assert difference(odt(tmp_path / "m.tflite", [X])[0], expected) < 1e-5
    assert list(train(model)) == [w]


def state_of_one_weight(model: Model) -> Parameters:
    """The state of the first tensor of a buffer, as odt once kept it for all of them."""
    rule = OPTIMIZERS["adam"]
    state = Parameters(model.graph, [1], Optimizer(rule, rule.attrs(), 0.1))
    for k, a in enumerate((state.tensors[1], *(slot[1] for slot in state.slots.values()))):
        a[...] = k + RNG.random(a.shape)
    return state


def assert_both_have(state: Parameters, trainer: Trainer) -> None:
    assert sorted(trainer.parameters.tensors) == [1, 2]
    for mine, a in [
        (trainer.parameters.tensors, state.tensors[1]),
        *((trainer.parameters.slots[name], state.slots[name][1]) for name in state.slots),
    ]:
        for i in (1, 2):
            np.testing.assert_array_equal(mine[i], a)


@pytest.mark.parametrize("named", [False, True])
def test_an_older_checkpoint_of_one_weight_fills_all_tensors_of_its_buffer(
    named: bool, tmp_path: Path
) -> None:
    model = tied(tmp_path / "m.tflite", two_tensors=True)
    state = state_of_one_weight(model)
    then = Progress(tied_by_buffer=True, trainable_tensors=(1,) if named else None)
    resume = Resume("c.odt", checkpoint.capture(model.graph, state, then))
    info = TrainingInfo(**{**resume.training_info(model.graph), "loss": INFO.loss})
    with Trainer(model.graph, info) as trainer:
        resume.restore(model.graph, trainer.parameters)
        assert_both_have(state, trainer)


def test_an_older_onert_checkpoint_of_one_weight_fills_all_tensors_of_its_buffer(
    tmp_path: Path,
) -> None:
    model = tied(tmp_path / "m.tflite", two_tensors=True)
    state = state_of_one_weight(model)
    data = b"".join(onert_checkpoint.encode(model.graph, state))
    with Trainer(model.graph, TrainingInfo(loss=INFO.loss)) as trainer:
        onert_checkpoint.decode(data, "c", model.graph, trainer.parameters)
        assert_both_have(state, trainer)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_checkpoints_keep_tensors_of_one_buffer_separate(optimizer: str, tmp_path: Path) -> None:
    model = tied(tmp_path / "m.tflite", two_tensors=True)
    info = TrainingInfo(loss=INFO.loss, optimizer=optimizer, batch_size=4)
    with Trainer(model.graph, info) as trainer:
        list(trainer.train(ArrayData([X], [T]), InOrder(4), epochs=1))
        own = checkpoint.capture(model.graph, trainer.parameters, Progress())
        theirs = b"".join(onert_checkpoint.encode(model.graph, trainer.parameters))
        groups = [trainer.parameters.tensors, *trainer.parameters.slots.values()]
    for resume in (
        Resume("c", checkpoint.decode(b"".join(checkpoint.encode(own)), "c")),
        Resume("c", None, theirs),
    ):
        with Trainer(model.graph, info) as other:
            resume.restore(model.graph, other.parameters)
            found = [other.parameters.tensors, *other.parameters.slots.values()]
        for before, after in zip(groups, found, strict=True):
            for i in (1, 2):
                np.testing.assert_array_equal(after[i], before[i])
