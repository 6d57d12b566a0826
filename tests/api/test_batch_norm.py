"""Batch normalization of ONNX files with the statistics of each batch.

The reference is a network in NumPy with float64 whose gradients are written out; running statistics
move as the definition in ONNX says, with the population's variance.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.onnx_files import OnnxFile, mlp, value

import odt
from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.errors import OdtError, OptionError

Array = np.ndarray[Any, Any]
EPSILON, MOMENTUM, RATE = 1e-3, 0.8, 0.2
STATISTICS = ("mean", "variance")
LOSS = odt.SparseCategoricalCrossentropy()


def weights() -> dict[str, Array]:
    draw = np.random.default_rng(7).standard_normal
    shapes = {"w1": (5, 6), "gamma": (5,), "beta": (5,), "mean": (5,), "w2": (3, 5), "b2": (3,)}
    named = {name: draw(shape).astype(np.float32) for name, shape in shapes.items()}
    return named | {"variance": draw(5).astype(np.float32) ** 2 + 0.5}


def network(path: Path, training_mode: int = 0) -> Path:
    """Gemm, BatchNormalization, Relu, Gemm."""
    file = OnnxFile()
    file.inputs.append(value("x", ("N", 6)))
    file.outputs.append(value("y", ("N", 3)))
    file.constants(weights())
    file.add("Gemm", "x", "w1", outputs=["h"], transB=1)
    vectors = ("gamma", "beta", "mean", "variance")
    numbers = {"epsilon": EPSILON, "momentum": MOMENTUM}
    if training_mode:
        numbers["training_mode"] = training_mode
    outputs = ["n", "new mean", "new variance"][: 1 + 2 * training_mode]
    file.add("BatchNormalization", "h", *vectors, outputs=outputs, **numbers)
    file.add("Relu", "n", outputs=["r"])
    file.add("Gemm", "r", "w2", "b2", transB=1)
    return file.write(path)


def batches(*sizes: int) -> Iterator[tuple[Array, Array]]:
    rng = np.random.default_rng(5)
    for n in sizes:
        x = rng.normal(1, 2, (n, 6)).astype(np.float32)
        yield x, rng.integers(0, 3, n)


class Reference:
    """The network in float64; `step` trains it by gradient descent."""

    def __init__(self) -> None:
        self.w = {name: a.astype(np.float64) for name, a in weights().items()}

    def step(self, x: Array, t: Array, trained: tuple[str, ...] = ()) -> float:
        w, n = self.w, len(x)
        h = x @ w["w1"].T
        mean, variance = h.mean(0), ((h - h.mean(0)) ** 2).mean(0)
        inv = 1 / np.sqrt(variance + EPSILON)
        normal = (h - mean) * inv
        z = normal * w["gamma"] + w["beta"]
        r = np.maximum(z, 0)
        y = r @ w["w2"].T + w["b2"]
        e = np.exp(y - y.max(1, keepdims=True))
        p = e / e.sum(1, keepdims=True)
        loss = -np.log(p[np.arange(n), t]).mean()
        dy = (p - np.eye(3)[t]) / n
        dz = dy @ w["w2"] * (z > 0)
        dn = dz * w["gamma"]
        dh = inv * (dn - dn.mean(0) - normal * (dn * normal).mean(0))
        gradients = {"w1": dh.T @ x, "gamma": (dz * normal).sum(0), "beta": dz.sum(0)}
        gradients |= {"w2": dy.T @ r, "b2": dy.sum(0)}
        for name in trained or gradients:
            w[name] -= RATE * gradients[name]
        for name, new in zip(STATISTICS, (mean, variance), strict=True):
            w[name] = MOMENTUM * w[name] + (1 - MOMENTUM) * new
        return float(loss)


def trainer(path: Path | odt.Model, **options: Any) -> odt.Trainer:
    given = {"batch_size": 8, "batch_norm": "batch", **options}
    return odt.Trainer(path, loss=LOSS, optimizer=odt.SGD(RATE), **given)


def constants(path: Path) -> dict[str, Array]:
    tensors = read_model(path).graph.tensors
    return {t.name: np.array(t.data) for t in tensors if t.data is not None}


def check_equal(path: Path, reference: Reference) -> None:
    stored = constants(path)
    for name, a in reference.w.items():
        np.testing.assert_allclose(stored[name], a, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("training_mode", [0, 1])
def test_losses_weights_and_statistics_are_those_of_the_definition(
    tmp_path: Path, training_mode: int
) -> None:
    path, reference = network(tmp_path / "m.onnx", training_mode), Reference()
    with trainer(path) as t:
        for x, labels in batches(8, 8, 5, 8):  # one batch is short
            loss = t.train_on_batch(x, labels)["loss"]
            assert loss == pytest.approx(reference.step(x, labels), abs=1e-5)
        t.export(tmp_path / "trained.onnx")
    check_equal(tmp_path / "trained.onnx", reference)


def test_images_have_statistics_of_each_channel(tmp_path: Path) -> None:
    file = OnnxFile()
    file.inputs.append(value("x", ("N", 3, 4, 5)))
    file.outputs.append(value("y", ("N", 2)))
    file.constants({"s": np.ones(3, "f4"), "b": np.zeros(3, "f4"), "w": np.ones((2, 60), "f4")})
    mean, variance = np.array([1, 2, 3], "f4"), np.array([1, 2, 4], "f4")
    file.constants({"m": mean, "v": variance})
    file.add("BatchNormalization", "x", "s", "b", "m", "v", outputs=["n"])
    file.add("Flatten", "n", outputs=["f"])
    file.add("Gemm", "f", "w", transB=1)
    path = file.write(tmp_path / "m.onnx")
    x = np.random.default_rng(2).normal(3, 2, (8, 3, 4, 5)).astype("f4")
    with trainer(path) as t:
        t.train_on_batch(x, np.zeros(8, int))
        t.export(path)
    stored = constants(path)
    np.testing.assert_allclose(stored["m"], 0.9 * mean + 0.1 * x.mean((0, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(stored["v"], 0.9 * variance + 0.1 * x.var((0, 2, 3)), rtol=1e-5)


def test_frozen_layers_move_their_statistics_too(tmp_path: Path) -> None:
    path, reference = network(tmp_path / "m.onnx"), Reference()
    with trainer(path, trainable=odt.select("w2", "b2")) as t:
        for x, labels in batches(8, 8):
            t.train_on_batch(x, labels)
            reference.step(x, labels, ("w2", "b2"))
        t.export(tmp_path / "trained.onnx")
    check_equal(tmp_path / "trained.onnx", reference)


def test_evaluation_uses_the_statistics_that_moved(tmp_path: Path) -> None:
    path, (x, labels) = network(tmp_path / "m.onnx"), next(batches(16))
    with trainer(path) as t:
        before = t.evaluate(x, labels)["loss"]
        t.fit(x, labels, epochs=3)
        after = t.evaluate(x, labels)["loss"]
        predicted = t.predict(x)
        t.export(tmp_path / "trained.onnx")
    assert before == pytest.approx(odt.evaluate(path, x, labels, loss=LOSS).loss, rel=1e-5)
    exported = odt.evaluate(tmp_path / "trained.onnx", x, labels, loss=LOSS).loss
    assert after == pytest.approx(exported, rel=1e-5)
    np.testing.assert_allclose(predicted, odt.predict(tmp_path / "trained.onnx", x), atol=1e-5)


def test_a_resumed_run_has_the_same_bits(tmp_path: Path) -> None:
    path, (x, labels) = network(tmp_path / "m.onnx"), next(batches(16))
    with trainer(path) as t:
        t.fit(x, labels, epochs=4)
        t.export(tmp_path / "whole.onnx")
    with trainer(path) as t:
        t.fit(x, labels, epochs=2)
        t.save_checkpoint(tmp_path / "half.odt")
    with odt.Trainer(path, loss=LOSS, checkpoint=tmp_path / "half.odt") as t:
        assert t.session.recipe.info.batch_norm == "batch"
        t.fit(x, labels, epochs=4)
        t.export(tmp_path / "resumed.onnx")
    assert (tmp_path / "whole.onnx").read_bytes() == (tmp_path / "resumed.onnx").read_bytes()


def test_each_accumulated_batch_moves_the_statistics(tmp_path: Path) -> None:
    path, w = network(tmp_path / "m.onnx"), weights()
    (x, labels), mean = next(batches(8)), weights()["mean"].astype(np.float64)
    with trainer(path, batch_size=4, accumulate=2) as t:
        t.fit(x, labels, epochs=1, shuffle=False)
        t.export(path)
    for part in (x[:4], x[4:]):
        mean = MOMENTUM * mean + (1 - MOMENTUM) * (part @ w["w1"].T).mean(0)
    np.testing.assert_allclose(constants(path)["mean"], mean, rtol=1e-4, atol=1e-5)


def test_the_plan_says_that_a_batch_is_not_divided(tmp_path: Path) -> None:
    path = str(network(tmp_path / "m.onnx"))
    options = ["--batch-size", "8", "--loss", "sparse-categorical-crossentropy"]
    fixed = CliRunner().invoke(main, ["plan", path, *options]).output
    result = CliRunner().invoke(main, ["plan", path, *options, "--batch-norm", "batch"])
    assert result.exit_code == 0, result.output
    assert "BatchNormalization (node 1) mixes samples" in result.output
    assert "mixes samples" not in fixed
    with pytest.raises(OptionError, match="micro_batch"), trainer(Path(path), micro_batch=2) as t:
        t.train_on_batch(*next(batches(8)))


def test_a_model_keeps_its_statistics_by_default(tmp_path: Path) -> None:
    path, (x, labels) = network(tmp_path / "m.onnx"), next(batches(8))
    with trainer(path, batch_norm=None) as t:
        t.train_on_batch(x, labels)
        t.export(tmp_path / "trained.onnx")
    before, after = constants(path), constants(tmp_path / "trained.onnx")
    assert all((before[n] == after[n]).all() for n in STATISTICS)
    assert all((before[n] != after[n]).any() for n in before.keys() - {*STATISTICS})


def test_what_has_no_statistics_of_batches_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"batch_norm=.*without BatchNormalization"):
        trainer(mlp().write(tmp_path / "mlp.onnx"))
    path = network(tmp_path / "m.onnx")
    with pytest.raises(OptionError, match=r"cache_frozen=.*must be left out"):
        trainer(path, trainable=odt.select("w2"), cache_frozen="ram")
    model = odt.lora(path, rank=2)
    with pytest.raises(OptionError, match=r"batch_norm=.*adapters"):
        trainer(model)
    trains = network(tmp_path / "t.onnx", training_mode=1)
    with pytest.raises(OdtError, match=re.escape('train it with `batch_norm="batch"`')):
        trainer(trains, batch_norm="fixed")
