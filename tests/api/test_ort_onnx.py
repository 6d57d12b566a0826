"""odt.compat.ort on ONNX models: artifacts, blocks, states, buffers, exports."""

import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.onnx_files import OnnxFile, mlp, value

import odt
from odt.compat.ort import artifacts, onnxblock
from odt.compat.ort.api import CheckpointState, LinearLRScheduler, Module, Optimizer
from odt.core.checkpoints.ort_file import OrtCheckpoint, read_ort_checkpoint, write_ort_checkpoint

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(11)
X = RNG.standard_normal((8, 6)).astype(np.float32)
LABELS = RNG.integers(0, 3, 8)
VALUES = RNG.standard_normal((8, 3)).astype(np.float32)
NAMES = ["w1", "b1", "w2", "b2"]
CROSS_ENTROPY = artifacts.LossType.CrossEntropyLoss
SGD, ADAMW = artifacts.OptimType.SGD, artifacts.OptimType.AdamW


class Proto:
    """A model in memory, as onnx.ModelProto is one."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def SerializeToString(self) -> bytes:  # noqa: N802  # as in protobuf
        return self._data


def weights() -> dict[str, Array]:
    """The weights of `mlp`, as float64."""
    draw = np.random.default_rng(0).standard_normal
    shapes = ((5, 6), (5,), (5, 3), (3,))
    each = (draw(s).astype(np.float32).astype(np.float64) for s in shapes)
    return dict(zip(NAMES, each, strict=True))


def outputs(w: dict[str, Array]) -> Array:
    hidden: Array = np.maximum(X @ w["w1"].T + w["b1"], 0)
    result: Array = hidden @ w["w2"] + w["b2"]
    return result


def entropies(y: Array, labels: Array = LABELS) -> Array:
    shifted = y - y.max(-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    each: Array = -np.take_along_axis(log_p, labels[..., None], -1)[..., 0]
    return each


def binary(y: Array, t: Array, ones: Any = 1.0) -> Array:
    p = 1 / (1 + np.exp(-y))
    result: Array = -(ones * t * np.log(p) + (1 - t) * np.log(1 - p))
    return result


def slopes(loss: Callable[[dict[str, Array]], float], name: str) -> Array:
    """Derivatives of a loss by a parameter, by finite differences."""
    w = weights()
    result = np.zeros_like(w[name])
    for k in np.ndindex(result.shape):
        ends = []
        for sign in (1, -1):
            moved = w[name].copy()
            moved[k] += sign * 1e-5
            ends.append(loss(w | {name: moved}))
        result[k] = (ends[0] - ends[1]) / 2e-5
    return result


def generate(folder: Path, loss: Any = CROSS_ENTROPY, **options: Any) -> Path:
    given: dict[str, Any] = {"requires_grad": NAMES, "optimizer": SGD, **options}
    model = given.pop("model", None) or mlp().data()
    artifacts.generate_artifacts(model, loss=loss, artifact_directory=folder, **given)
    return folder


def opened(folder: Path, checkpoint: str = "checkpoint") -> tuple[CheckpointState, Module]:
    state = CheckpointState.load_checkpoint(folder / checkpoint)
    return state, Module(folder / "training_model.onnx", state, folder / "eval_model.onnx")


def optimized(folder: Path, checkpoint: str = "checkpoint") -> tuple[Any, Module, Optimizer]:
    state, module = opened(folder, checkpoint)
    return state, module, Optimizer(folder / "optimizer_model.onnx", module)


def steps(module: Module, optimizer: Optimizer, count: int, *arrays: Any) -> list[float]:
    losses = []
    for _ in range(count):
        losses.append(float(module(*arrays or (X, LABELS))))
        optimizer.step()
        module.lazy_reset_grad()
    return losses


def test_the_files_are_those_of_onnx_runtime(tmp_path: Path) -> None:
    folder = generate(tmp_path / "a", nominal_checkpoint=True, prefix="p_")
    names = ["checkpoint", "eval_model.onnx", "nominal_checkpoint", "optimizer_model.onnx"]
    names.append("training_model.onnx")
    assert sorted(p.name for p in folder.iterdir()) == [f"p_{name}" for name in names]
    contents = read_ort_checkpoint(folder / "p_checkpoint")
    assert list(contents.trained) == NAMES
    nominal = read_ort_checkpoint(folder / "p_nominal_checkpoint")
    assert nominal.is_nominal
    assert [a.size for a in nominal.trained.values()] == [0] * 4


@pytest.mark.parametrize("form", ["path", "proto", "bytes", "odt"])
def test_the_training_phase_of_the_tutorial(form: str, tmp_path: Path) -> None:
    path = mlp().write(tmp_path / "m.onnx")
    forms: dict[str, Any] = {
        "path": path,
        "proto": Proto(path.read_bytes()),
        "bytes": path.read_bytes(),
        "odt": odt.load_model(path),
    }
    folder = generate(
        tmp_path / "data",
        model=forms[form],
        optimizer=ADAMW,
        frozen_params=[],
        additional_output_names=["y"],
    )
    state, model, optimizer = optimized(folder)
    assert (model.input_names(), model.output_names()[1:]) == (["x", "labels"], ["y"])
    model.train()
    first, logits = model(X, LABELS)
    assert first == pytest.approx(entropies(outputs(weights())).mean(), rel=1e-5)
    np.testing.assert_allclose(logits, outputs(weights()), rtol=1e-4, atol=1e-5)
    optimizer.set_learning_rate(0.05)
    for _ in range(5):
        last, _ = model(X, LABELS)
        optimizer.step()
        model.lazy_reset_grad()
    model.eval()
    assert model(X, LABELS)[0] < last < first
    model.export_model_for_inferencing(tmp_path / "trained.onnx", ["y"])
    trained = odt.load_model(tmp_path / "trained.onnx")
    assert ([t.name for t in trained.inputs], [t.name for t in trained.outputs]) == (["x"], ["y"])
    assert [n.operator for n in trained.nodes] == [
        "ONNX:Gemm", "ONNX:Relu", "ONNX:MatMul", "ONNX:Add",
    ]  # fmt: skip
    now = {name: parameter.data for name, parameter in state.parameters}
    y = odt.Trainer(tmp_path / "trained.onnx", loss="mse").predict(X)
    np.testing.assert_allclose(y, outputs(now), rtol=1e-4, atol=1e-5)


class Tutorial(onnxblock.TrainingBlock):
    def __init__(self) -> None:
        super().__init__()
        self.loss = onnxblock.loss.CrossEntropyLoss()

    def build(self, output: str) -> Any:
        return self.loss(output), output


def test_artifacts_by_hand_train_like_generated_ones(tmp_path: Path) -> None:
    block = Tutorial()
    for name in NAMES:
        block.requires_grad(name, True)
    with onnxblock.base(Proto(mlp().data())):
        _ = block("y")
        training, evaluation = block.to_model_proto()
        parameters = block.parameters()
    optimizer_block = onnxblock.optim.AdamW()
    with onnxblock.empty_base():
        _ = optimizer_block(parameters)
        optimizer_model = optimizer_block.to_model_proto()
    by_hand = tmp_path / "hand"
    by_hand.mkdir()
    onnxblock.save_checkpoint(block.parameters(), by_hand / "checkpoint")
    for name, data in (
        ("training_model", training),
        ("eval_model", evaluation),
        ("optimizer_model", optimizer_model),
    ):
        (by_hand / f"{name}.onnx").write_bytes(data)
    results = []
    for folder in (by_hand, generate(tmp_path / "g", optimizer=ADAMW)):
        state, module, optimizer = optimized(folder)
        module(X, LABELS)
        optimizer.step()
        results.append([parameter.data for _, parameter in state.parameters])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


class Combined(onnxblock.Block):
    """0.5 · cross-entropy + mean absolute difference."""

    def build(self, output: str) -> Any:
        blocks = onnxblock.blocks
        scaled = blocks.Mul()(onnxblock.loss.CrossEntropyLoss()(output), blocks.Constant(0.5)())
        return blocks.Add()(scaled, onnxblock.loss.L1Loss()(output))


class Fourth(onnxblock.Block):
    """(Σ (y − t)⁴) / 2 − the mean of |y|, neither of which is a loss of odt."""

    def build(self, output: str) -> Any:
        blocks = onnxblock.blocks
        target = blocks.InputLike(output)("target")
        powers = blocks.Pow(4.0)(blocks.Sub()(output, target))
        total = blocks.Div()(blocks.ReduceSum(keepdims=False)(powers), blocks.Constant(2.0)())
        return blocks.Sub()(total, blocks.ReduceMean(keepdims=False)(blocks.Abs()(output)))


WEIGHT = np.array([0.5, 2.0, 1.0])
ZEROS = (VALUES > 0).astype(np.float32)
KEPT = LABELS != 1
LOSSES: dict[str, tuple[Any, tuple[Array, ...], Callable[[Array], Any]]] = {
    "combined": (
        Combined(),
        (LABELS, VALUES),
        lambda y: 0.5 * entropies(y).mean() + np.abs(y - VALUES).mean(),
    ),
    "general": (
        Fourth(),
        (VALUES,),
        lambda y: ((y - VALUES) ** 4).sum() / 2 - np.abs(y).mean(),
    ),
    "class weights": (
        onnxblock.loss.CrossEntropyLoss(WEIGHT),
        (LABELS,),
        lambda y: (WEIGHT[LABELS] * entropies(y)).sum() / WEIGHT[LABELS].sum(),
    ),
    "ignored": (
        onnxblock.loss.CrossEntropyLoss(ignore_index=1, reduction="sum"),
        (LABELS,),
        lambda y: entropies(y)[KEPT].sum(),
    ),
    "squares": (
        onnxblock.loss.MSELoss("sum"),
        (VALUES,),
        lambda y: ((y - VALUES) ** 2).sum(),
    ),
    "binary": (
        onnxblock.loss.BCEWithLogitsLoss(),
        (ZEROS,),
        lambda y: binary(y, ZEROS).mean(),
    ),
    "weighted binary": (
        onnxblock.loss.BCEWithLogitsLoss(weight=WEIGHT, pos_weight=np.array([3.0])),
        (ZEROS,),
        lambda y: (WEIGHT * binary(y, ZEROS, 3.0)).mean(),
    ),
    "a loss of odt": (
        odt.Huber(0.5),
        (VALUES,),
        lambda y: np.where(
            np.abs(y - VALUES) <= 0.5,
            0.5 * (y - VALUES) ** 2,
            0.5 * (np.abs(y - VALUES) - 0.25),
        ).mean(),
    ),
}


def test_a_module_keeps_no_needless_copy_of_the_weights(tmp_path: Path) -> None:
    inputs, units = 1024, 512
    file, draw = OnnxFile(), np.random.default_rng(5).standard_normal
    file.inputs.append(value("x", ("N", inputs)))
    file.outputs.append(value("y", ("N", units)))
    file.constants({"w": draw((units, inputs)).astype(np.float32)})
    file.add("Gemm", "x", "w", outputs=["y"], transB=1)
    folder = generate(tmp_path, model=file.data(), requires_grad=["w"], optimizer=ADAMW)
    x, labels = draw((4, inputs)).astype(np.float32), np.arange(4)
    tracemalloc.start()
    try:
        _, module, optimizer = optimized(folder)
        steps(module, optimizer, 2, x, labels)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # As in the file, as trained, two moments and the sum of gradients.
    assert kept < 5.5 * 4 * units * inputs


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_their_gradients(name: str, tmp_path: Path) -> None:
    block, targets, formula = LOSSES[name]
    state, module, optimizer = optimized(generate(tmp_path, block))
    optimizer.set_learning_rate(0.01)
    expected = formula(outputs(weights()))
    assert module.eval()(X, *targets) == pytest.approx(expected, rel=1e-5)
    assert module.train()(X, *targets) == pytest.approx(expected, rel=1e-5)
    for parameter in ("w2", "b1"):
        gradient = slopes(lambda w: formula(outputs(w)), parameter)
        largest = np.abs(gradient).max()
        found = state.parameters[parameter].grad
        np.testing.assert_allclose(found, gradient, rtol=2e-4, atol=2e-5 * largest)
        optimized_value = weights()[parameter] - 0.01 * gradient
        if parameter == "w2":
            optimizer.step()
            close = {"rtol": 1e-4, "atol": 1e-6 * largest}
            np.testing.assert_allclose(state.parameters["w2"].data, optimized_value, **close)


def sequence_model(*, loss: bool) -> bytes:
    """Scores (N, 4, 3) of 6 values each; with their loss if asked for, as mobilebert's script."""
    file = OnnxFile()
    file.inputs.append(value("x", ("N", 4, 6)))
    w = weights()["w2"][:3].repeat(2, 0)
    file.constants({"w": w.astype(np.float32), "flat": np.array([-1, 3]), "row": np.array([-1])})
    file.add("MatMul", "x", "w", outputs=["scores"])
    if loss:
        file.inputs.append(value("labels", ("N", 4), "int64"))
        file.add("Reshape", "scores", "flat", outputs=["a"])
        file.add("Reshape", "labels", "row", outputs=["b"])
        file.add(
            "SoftmaxCrossEntropyLoss", "a", "b", outputs=["loss"], reduction="mean",
            ignore_index=-100,
        )  # fmt: skip
        file.outputs.append(value("loss", ()))
    file.outputs.append(value("scores", ("N", 4, 3)))
    return file.data()


def test_a_loss_in_the_model_ignores_labels(tmp_path: Path) -> None:
    model = sequence_model(loss=True)
    folder = generate(tmp_path, None, model=model, requires_grad=["w"])
    _, module, optimizer = optimized(folder)
    assert (module.input_names(), module.output_names()) == (["x", "labels"], ["loss", "scores"])
    x = RNG.standard_normal((5, 4, 6)).astype(np.float32)
    labels = RNG.integers(0, 3, (5, 4))
    labels[:, 1] = -100
    y = x.astype(np.float64) @ weights()["w2"][:3].repeat(2, 0)
    kept = labels != -100
    loss, scores = module(x, labels)
    assert loss == pytest.approx(entropies(y, np.where(kept, labels, 0))[kept].mean(), rel=1e-5)
    np.testing.assert_allclose(scores, y, rtol=1e-4, atol=1e-5)
    optimizer.set_learning_rate(0.1)
    optimizer.step()
    assert module.eval()(x, labels)[0] < loss
    for bad, rule in ((labels - labels - 100, "must have a weight above 0"), (labels + 3, "0 … 2")):
        with pytest.raises(odt.DataError, match=rule):
            module(x, bad)
    module.export_model_for_inferencing(tmp_path / "t.onnx", ["scores"])
    assert [t.name for t in odt.load_model(tmp_path / "t.onnx").inputs] == ["x"]


def test_each_position_has_a_label(tmp_path: Path) -> None:
    folder = generate(tmp_path, model=sequence_model(loss=False), requires_grad=["w"])
    _, module = opened(folder)
    x = RNG.standard_normal((5, 4, 6)).astype(np.float32)
    labels = RNG.integers(0, 3, (5, 4))
    y = x.astype(np.float64) @ weights()["w2"][:3].repeat(2, 0)
    assert module(x, labels) == pytest.approx(entropies(y, labels).mean(), rel=1e-5)


def test_a_model_that_ends_in_softmax_gets_a_second_one(tmp_path: Path) -> None:
    """The file says so: SoftmaxCrossEntropyLoss reads what Softmax computes."""
    file = mlp()
    file.outputs = [value("s", ("N", 3))]
    file.add("Softmax", "y", outputs=["s"])
    _, module = opened(generate(tmp_path, model=file.data()))
    p = np.exp(-np.stack([entropies(outputs(weights()), np.full(8, k)) for k in range(3)], -1))
    assert module(X, LABELS) == pytest.approx(entropies(p).mean(), rel=1e-5)


@pytest.mark.parametrize(
    "optimizer", [SGD, ADAMW, odt.SGD(0.01), odt.Adam(0.01), odt.SGD(0.01, momentum=0.9)]
)
def test_resuming_computes_the_same_bits(optimizer: Any, tmp_path: Path) -> None:
    folder = generate(tmp_path, optimizer=optimizer)
    state, module, updates = optimized(folder)
    steps(module, updates, 3)
    state.properties["epoch"], state.properties["rate"], state.properties["who"] = 3, 0.5, "I"
    path = folder / "state"
    CheckpointState.save_checkpoint(state, path, include_optimizer_state=True)
    expected = steps(module, updates, 3)
    again, module, updates = optimized(folder, "state")
    assert steps(module, updates, 3) == expected
    assert dict(again.properties) == {"epoch": 3, "rate": 0.5, "who": "I"}
    assert updates.get_learning_rate() == (0.001 if optimizer in (SGD, ADAMW) else 0.01)


def test_a_schedule_follows_the_updates(tmp_path: Path) -> None:
    folder = generate(tmp_path)
    state, module, optimizer = optimized(folder)
    schedule = LinearLRScheduler(optimizer, 1, 5, 0.4)
    rates = []
    for _ in range(3):
        steps(module, optimizer, 1)
        schedule.step()
        rates.append(optimizer.get_learning_rate())
    assert rates == pytest.approx([0.4, 0.3, 0.2])
    CheckpointState.save_checkpoint(state, folder / "state", include_optimizer_state=True)
    _, _, resumed = optimized(folder, "state")
    LinearLRScheduler(resumed, 1, 5, 0.4)
    assert resumed.get_learning_rate() == pytest.approx(0.2)


def test_gradients_stay_until_they_are_reset(tmp_path: Path) -> None:
    state, module, optimizer = optimized(generate(tmp_path, optimizer=ADAMW))
    optimizer.set_learning_rate(0)
    module(X, LABELS)
    one = np.array(state.parameters["w1"].grad)
    optimizer.step()
    np.testing.assert_array_equal(state.parameters["w1"].grad, one)
    module(X, LABELS)
    np.testing.assert_allclose(np.array(state.parameters["w1"].grad), 2 * one, rtol=1e-6)
    module(X[:3], LABELS[:3])  # a short batch
    module.lazy_reset_grad()
    module(X, LABELS)
    np.testing.assert_allclose(np.array(state.parameters["w1"].grad), one, rtol=1e-6)
    twice = np.concatenate([X, X]), np.concatenate([LABELS, LABELS])
    module(*twice)  # a longer one
    np.testing.assert_allclose(np.array(state.parameters["w1"].grad), 2 * one, rtol=1e-5)
    module.eval()
    longer = [np.tile(a, (5, *[1] * (a.ndim - 1))) for a in twice]
    assert module(*longer) == pytest.approx(module(X, LABELS), rel=1e-5)


def test_buffers_have_the_models_order(tmp_path: Path) -> None:
    folder = generate(tmp_path, requires_grad=["w2", "w1"], frozen_params=["b1", "b2"])
    state, module, optimizer = optimized(folder)
    assert [name for name, _ in state.parameters] == NAMES
    assert [name for name, p in state.parameters if p.requires_grad] == ["w1", "w2"]
    w = weights()
    for trainable, names in ((True, ["w1", "w2"]), (False, NAMES)):
        flat = np.concatenate([w[n].reshape(-1) for n in names]).astype(np.float32)
        np.testing.assert_array_equal(module.get_contiguous_parameters(trainable).numpy(), flat)
        assert module.get_parameters_size(trainable) == flat.size
        module.copy_buffer_to_parameters(flat * 2, trainable)
        assert module.eval()(X, LABELS) > 0
        module.copy_buffer_to_parameters(flat, trainable)
    assert module(X, LABELS) == pytest.approx(entropies(outputs(w)).mean(), rel=1e-5)
    module.train()
    steps(module, optimizer, 1)
    np.testing.assert_array_equal(state.parameters["b1"].data, w["b1"].astype(np.float32))
    with pytest.raises(odt.DataError, match=r"buffer: must be \(45,\) float32 for 2 parameters"):
        module.copy_buffer_to_parameters(np.zeros(3, np.float32))


def test_a_nominal_checkpoint_waits_for_its_parameters(tmp_path: Path) -> None:
    folder = generate(tmp_path, nominal_checkpoint=True)
    _, full, _ = optimized(folder)
    state, module = opened(folder, "nominal_checkpoint")
    assert state.parameters["w1"].grad is None
    for call in (
        lambda: module(X, LABELS),
        lambda: module.export_model_for_inferencing(tmp_path / "n.onnx", ["y"]),
        lambda: CheckpointState.save_checkpoint(state, tmp_path / "s"),
        lambda: state.parameters["w1"].data,
    ):
        with pytest.raises(odt.ModelError, match=r"nominal.* Set .*copy_buffer_to_parameters"):
            call()
    assert module.get_parameters_size() == 53
    module.copy_buffer_to_parameters(full.get_contiguous_parameters())
    assert module.eval()(X, LABELS) == full.eval()(X, LABELS)


def test_parameters_can_be_set(tmp_path: Path) -> None:
    folder = generate(tmp_path, requires_grad=["w2", "b2"], frozen_params=["w1", "b1"])
    state, module = opened(folder)
    module(X, LABELS)
    state.parameters["w2"] = np.zeros((5, 3), np.float32)
    state.parameters["b2"].data = np.zeros(3, np.float32)
    assert module(X, LABELS) == pytest.approx(np.log(3))
    state.parameters["w1"] = np.zeros((5, 6), np.float32)  # a frozen one
    assert module(X, LABELS) == pytest.approx(np.log(3))
    assert not state.parameters["w1"].data.any()
    with pytest.raises(odt.DataError, match=r"w2: must be \(5, 3\) float32"):
        state.parameters["w2"] = np.zeros((3, 5), np.float32)
    with pytest.raises(KeyError, match="w7: must be one of w1, b1, w2, b2"):
        state.parameters["w7"]


def test_all_other_initializers_may_be_frozen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Microsoft's example for Android does, also with shapes; in the current folder."""
    monkeypatch.chdir(tmp_path)
    file = mlp()
    file.outputs = [value("z", ("N", 3))]
    file.constants({"shape": np.array([-1, 3]), "unused": np.ones(2, np.float32)})
    file.add("Reshape", "y", "shape", outputs=["z"])
    artifacts.generate_artifacts(
        file.data(),
        requires_grad=["w2", "b2"],
        frozen_params=["w1", "b1", "shape", "unused"],
        loss=CROSS_ENTROPY,
        optimizer=ADAMW,
    )
    state, module, optimizer = optimized(tmp_path)
    assert state.parameters["shape"].data.tolist() == [-1, 3]
    losses = steps(module, optimizer, 3)
    assert losses[0] == pytest.approx(entropies(outputs(weights())).mean(), rel=1e-5)
    assert losses[2] < losses[0]
    module.export_model_for_inferencing("trained.onnx", ["z"])
    np.testing.assert_array_equal(
        odt.load_model("trained.onnx").parameters["w1"], state.parameters["w1"].data
    )
    rule = r"buffer: parameters must be float32, but shape is int64. Give `trainable_only=True`"
    with pytest.raises(odt.DataError, match=rule):
        module.get_contiguous_parameters(trainable_only=False)


def test_open_axes_are_those_of_each_call(tmp_path: Path) -> None:
    file = OnnxFile(inputs=[value("x", ("N", 2, "H", "W"))], outputs=[value("y", ("N", 3))])
    w = np.random.default_rng(3).standard_normal((3, 2, 3, 3)).astype(np.float32)
    file.constants({"w": w, "axes": np.array([2, 3])})
    file.add("Conv", "x", "w", outputs=["c"], kernel_shape=[3, 3])
    file.add("GlobalAveragePool", "c", outputs=["p"])
    file.add("Squeeze", "p", "axes")
    folder = generate(tmp_path, model=file.data(), requires_grad=["w"], optimizer=ADAMW)
    state, module, optimizer = optimized(folder)
    for size in (12, 9, 12):
        x = RNG.standard_normal((4, 2, size, size)).astype(np.float32)
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
        now = state.parameters["w"].data.astype(np.float64)
        y = np.einsum("nchwij,ocij->nohw", windows, now).mean((2, 3))
        assert module(x, LABELS[:4]) == pytest.approx(entropies(y, LABELS[:4]).mean(), rel=1e-5)
        optimizer.step()
        module.lazy_reset_grad()
    assert state.odt_state.step == 3
    with pytest.raises(odt.DataError, match=r"x: must be \(N, 2, N, N\), but got \(4, 3, 9, 9\)"):
        module(np.zeros((4, 3, 9, 9), np.float32), LABELS[:4])


def test_weights_in_constants_and_packed_ones_train(tmp_path: Path) -> None:
    for storage in ("constant", "packed", "single"):
        folder = generate(tmp_path / storage, model=mlp(storage).data())
        _, module, optimizer = optimized(folder)
        optimizer.set_learning_rate(0.1)
        losses = steps(module, optimizer, 2)
        assert losses[0] == pytest.approx(entropies(outputs(weights())).mean(), rel=1e-5)
        assert losses[1] < losses[0]
        module.export_model_for_inferencing(tmp_path / "t.onnx", ["y"])
        assert len(odt.load_model(tmp_path / "t.onnx").nodes) == 4


@pytest.mark.parametrize("optimizer", [SGD, ADAMW])
def test_a_head_without_loss_stays(optimizer: Any, tmp_path: Path) -> None:
    """1.19.2: requires_grad must not name parameters that the loss does not depend on."""
    file = mlp()
    file.outputs.append(value("z", ("N", 2)))
    file.constants({"w3": np.ones((3, 2), np.float32)})
    file.add("MatMul", "y", "w3", outputs=["z"])
    folder = generate(
        tmp_path,
        model=file.data(),
        requires_grad=[*NAMES, "w3"],
        optimizer=optimizer,
        loss_input_names=["y"],
        additional_output_names=["z"],
    )
    state, module, updates = optimized(folder)
    for step in range(4):
        loss, z = module(X, LABELS)
        assert z.shape == (8, 2)
        updates.step()
        module.lazy_reset_grad()
        if step == 1:
            path = folder / "state"
            CheckpointState.save_checkpoint(state, path, include_optimizer_state=True)
    assert (state.parameters["w3"].data == 1).all()
    assert state.parameters["w3"].grad is None
    _, module, updates = optimized(folder, "state")
    for _ in range(2):
        again, _ = module(X, LABELS)
        updates.step()
        module.lazy_reset_grad()
    assert again == loss


def test_without_names_all_parameters_train(tmp_path: Path) -> None:
    state, _ = opened(generate(tmp_path, requires_grad=None, frozen_params=["b1"]))
    assert [n for n, p in state.parameters if p.requires_grad] == ["w1", "w2", "b2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"requires_grad": ["w1", "ww2", "b"]},
            r"^`requires_grad=`: must name initializers of the model, but got ww2, b. Similar ones "
            r"are w2, b2, b1.$",
        ),
        (
            {"frozen_params": ["zz"]},
            r"^`frozen_params=`: must name .*got zz. It has w1, b1, w2, b2",
        ),
        ({"requires_grad": []}, r"^`requires_grad=`: must name a parameter that trains"),
        ({"frozen_params": ["w1"]}, r"must have no parameter in common, but got w1"),
        ({"requires_grad": "w1"}, r"^`requires_grad=`: must be a list of names, but got 'w1'"),
        ({"requires_grad": [1]}, r"^`requires_grad=`: must be a list of names, but got \[1\]"),
        ({"optimizer": odt.Adam(-1)}, r"^`learning_rate=`: must be a .* above 0, but got -1"),
        ({"additional_output_names": ["q"]}, r"^`additional_output_names=`: must be tensors"),
        (
            {"loss": "numpy:square"},
            r"^`loss=`: must be one of odt's .*the custom loss numpy:square",
        ),
        ({"loss_input_names": ["q"]}, r"^`loss=`: must be inputs or outputs .*got q"),
        (
            {"loss": None},
            r"the loss must be a sum of means, sums and cross-entropies, but got MatMul",
        ),
    ],
)
def test_arguments_are_refused_with_one_line(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(odt.OdtError, match=message) as error:
        generate(tmp_path / "a", **options)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "a").exists(), "nothing is written before all is checked"


def test_all_operators_that_odt_lacks_are_named(tmp_path: Path) -> None:
    """Also at the end of the model, where odt.Trainer leaves them out."""
    file = mlp()
    file.outputs = [value("c", ("N", 3))]
    file.add("Bernoulli", "y", outputs=["a"], name="first")
    file.add("Fancy", "a", outputs=["b"], name="second", domain="x.y")
    file.add("Relu", "b", outputs=["c"])
    rule = (
        r'"first" \(Bernoulli\).*ai.onnx, opset 17\); node 5 "second" \(x.y.Fancy\).*x.y, opset 1'
    )
    with pytest.raises(odt.UnsupportedError, match=rule):
        generate(tmp_path / "a", model=file.data())
    assert not (tmp_path / "a").exists()


class Product(onnxblock.Block):
    def build(self, output: str) -> Any:
        loss = onnxblock.loss.L1Loss()(output)
        return onnxblock.blocks.Mul()(loss, loss)


class Changed(onnxblock.Block):
    def build(self, output: str) -> Any:
        self.base.graph.node.append(output)
        return output


class Misnamed(onnxblock.Block):
    def build(self, output: str) -> Any:
        return onnxblock.blocks.Abs()("yy")


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (Product(), "the loss must be a sum with constant factors, but got Mul"),
        (Changed(), "onnxblock.Block.base: a model must be changed by blocks"),
        (Misnamed(), "must combine tensors of the model, but got 'yy'"),
    ],
)
def test_blocks_that_odt_cannot_train_are_refused(block: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(odt.OdtError, match=message):
        generate(tmp_path, block)
    with pytest.raises(odt.TrainingError, match=r"must be called inside `with onnxblock.base"):
        onnxblock.blocks.Abs()("y")


def test_files_of_several_folders_are_refused(tmp_path: Path) -> None:
    folder, other = generate(tmp_path / "a"), generate(tmp_path / "b", model=tied())
    state = CheckpointState.load_checkpoint(other / "checkpoint")
    rule = r"must be \(5, 6\) as in the model, but got"
    with pytest.raises(odt.ModelError, match=rule):
        Module(folder / "training_model.onnx", state)
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    with pytest.raises(odt.ModelError, match=r"must be an .onnx file, but got one in the format"):
        Module(folder / "training_model.ort", state)
    module = Module(folder / "training_model.onnx", state)
    with pytest.raises(odt.ModelError, match="must be an optimizer model"):
        Optimizer(folder / "eval_model.onnx", module)
    with pytest.raises(odt.ModelError, match=r"must be the name of an .onnx file"):
        module.export_model_for_inferencing(tmp_path / "t.tflite", ["y"])
    with pytest.raises(odt.OptionError, match=r"must be tensors that .*computes, but got \['z'\]"):
        module.export_model_for_inferencing(tmp_path / "t.onnx", ["z"])
    weighted = onnxblock.loss.CrossEntropyLoss(weight=[1, 2, 3])  # of an operator that odt adds
    folder = generate(tmp_path / "c", weighted)
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    module = Module(folder / "training_model.onnx", state)
    with pytest.raises(odt.OptionError, match=r"but got \['z'\]. Such as y"):
        module.export_model_for_inferencing(tmp_path / "t.onnx", ["z"])


def test_blocks_in_an_empty_base_know_no_model() -> None:
    with onnxblock.empty_base():
        with pytest.raises(odt.OptionError, match="inputs or outputs of the model, but got x"):
            onnxblock.blocks.InputLike("x")()
        with pytest.raises(odt.TrainingError, match="must be called in `base`"):
            Tutorial()("y")


def tied() -> bytes:
    """The MLP with another width."""
    file = OnnxFile(inputs=[value("x", ("N", 6))], outputs=[value("y", ("N", 3))])
    shapes = {"w1": (4, 6), "b1": (4,), "w2": (4, 3), "b2": (3,)}
    file.constants({name: np.ones(shape, np.float32) for name, shape in shapes.items()})
    file.add("Gemm", "x", "w1", "b1", outputs=["h"], transB=1)
    file.add("Gemm", "h", "w2", "b2")
    return file.data()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X,), "must be called with x, labels, but got 1 value"),
        ((X[:, :5], LABELS), r"x: must be \(N, 6\), but got \(8, 5\)"),
        ((X, LABELS[:6]), "same number of samples"),
        ((X, LABELS.astype(np.float32)), "labels: must be class numbers"),
        ((X, LABELS + 3), "labels must be 0 … 2"),
    ],
)
def test_bad_calls_are_refused(arguments: tuple[Any, ...], message: str, tmp_path: Path) -> None:
    _, module = opened(generate(tmp_path))
    with pytest.raises(odt.DataError, match=message):
        module(*arguments)


def test_zeros_of_a_checkpoint_come_back_as_they_were(tmp_path: Path) -> None:
    """A flatbuffer leaves them out."""
    w = np.ones(3, np.float32)
    properties: dict[str, str | int | float] = {"i": 0, "f": 0.0, "s": ""}
    state = OrtCheckpoint({"w": w}, {}, {"w": (w, w)}, learning_rate=0.0, properties=properties)
    write_ort_checkpoint(state, tmp_path / "c")
    again = read_ort_checkpoint(tmp_path / "c")
    assert again.learning_rate == 0
    assert {name: repr(value) for name, value in again.properties.items()} == {
        name: repr(value) for name, value in properties.items()
    }


def test_damaged_checkpoints_are_refused(tmp_path: Path) -> None:
    whole = OrtCheckpoint(
        {"w": np.arange(6, dtype=np.float32).reshape(2, 3)},
        {"n": np.arange(3), "b": np.array([True])},
        {"w": (np.ones((2, 3), np.float32),) * 2},
        7,
        0.5,
        {"i": -3, "f": 0.25, "s": "text"},
    )
    path = tmp_path / "c"
    write_ort_checkpoint(whole, path)
    again = read_ort_checkpoint(path)
    assert (again.step, again.learning_rate, again.properties) == (7, 0.5, whole.properties)
    values = {**again.trained, **again.frozen}
    for name, a in {**whole.trained, **whole.frozen}.items():
        np.testing.assert_array_equal(values[name], a)
    data = path.read_bytes()
    rng, refused = np.random.default_rng(5), 0
    for k in range(1500):
        changed = bytearray(data)
        for _ in range(1 + k % 3):
            changed[rng.integers(len(data))] = rng.integers(256)
        path.write_bytes(changed[: rng.integers(len(data))] if k % 5 == 0 else changed)
        with suppress(odt.ModelError):
            CheckpointState.load_checkpoint(path)
            refused -= 1
        refused += 1
    assert 500 < refused < 1500
    for changes, rule in (
        ({"step": -1}, "step must be 0 or more, but got -1"),
        ({"frozen": whole.trained}, "each parameter must occur once, but got w twice"),
    ):
        write_ort_checkpoint(replace(whole, **changes), path)
        with pytest.raises(odt.ModelError, match=rule):
            read_ort_checkpoint(path)
