"""Repeated steps on arrays of the same shapes and types, for which Module reuses what it found."""

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.batch_norm_network import RATE, STATISTICS, Reference, batches, network
from support.onnx_files import OnnxFile, value

import odt
from odt.compat.ort import artifacts
from odt.compat.ort.api import CheckpointState, Module, Optimizer
from odt.kernels.rows.opdef import Array

TRAINED = "w1", "gamma", "beta", "w2", "b2"
BATCHES = list(batches(*(8,) * 6))


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[tuple[CheckpointState, Module, Optimizer]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", odt.OdtWarning)
        artifacts.generate_artifacts(
            network(tmp_path / "m.onnx"),
            requires_grad=TRAINED,
            frozen_params=STATISTICS,
            loss=artifacts.LossType.CrossEntropyLoss,
            optimizer=artifacts.OptimType.SGD,
            artifact_directory=tmp_path,
        )
    state = CheckpointState.load_checkpoint(tmp_path / "checkpoint")
    with Module(tmp_path / "training_model.onnx", state, tmp_path / "eval_model.onnx") as module:
        optimizer = Optimizer(tmp_path / "optimizer_model.onnx", module)
        optimizer.set_learning_rate(RATE)
        yield state, module, optimizer


def train(module: Module, optimizer: Optimizer, batches: Iterable[Any]) -> None:
    for x, labels in batches:
        module(x, labels)
        optimizer.step()
        module.lazy_reset_grad()


def values(state: CheckpointState) -> dict[str, Array]:
    return {name: p.data for name, p in state.parameters}


def test_steps_train_as_the_first_ones(parts: tuple[Any, Module, Optimizer]) -> None:
    """With other forms of arrays and evaluation between them, and other batches in each."""
    state, module, optimizer = parts
    reference = Reference()
    for number, (x, labels) in enumerate(BATCHES):
        if number == 4:
            module.eval()(x, labels)
            module.train()
        arrays = (np.asfortranarray(x), labels.astype(np.int32)) if number == 3 else (x, labels)
        assert module(*arrays) == pytest.approx(reference.step(x, labels, TRAINED), abs=1e-5)
        optimizer.step()
        module.lazy_reset_grad()
    for name, a in values(state).items():
        np.testing.assert_allclose(a, reference.w[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_a_step_adds_to_gradients_until_a_reset(parts: tuple[Any, Module, Optimizer]) -> None:
    _, module, optimizer = parts
    optimizer.set_learning_rate(0)

    def gradient(*arrays: Array, resets: bool = True) -> Array:
        module(*arrays)
        optimizer.step()
        result = module.gradient("w2")
        assert result is not None
        if resets:
            module.lazy_reset_grad()
        return result

    each = [gradient(*arrays) for arrays in BATCHES]
    gradient(*BATCHES[0], resets=False)
    both = gradient(*BATCHES[1])
    np.testing.assert_allclose(both, each[0] + each[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(gradient(*BATCHES[2]), each[2])


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        (0, np.nan, "sample 5: values must be finite, but got nan"),
        (0, np.inf, "sample 5: values must be finite, but got inf"),
        (1, -1, "sample 5: labels must be 0 … 2, but got -1"),
        (1, 3, "sample 5: labels must be 0 … 2, but got 3"),
        (1, 2**32, r"sample 5: values must fit into int32, but got 4294967296"),
    ],
)
def test_values_are_checked_in_each_step(
    argument: int, value: float, message: str, parts: tuple[Any, Module, Optimizer]
) -> None:
    state, module, optimizer = parts
    train(module, optimizer, BATCHES[:3])
    before = values(state)
    bad = [a.copy() for a in BATCHES[3]]
    bad[argument][5] = value
    with pytest.raises(odt.DataError, match=message):
        module(*bad)
    assert all(a.tobytes() == before[name].tobytes() for name, a in values(state).items())
    module(*BATCHES[3])
    optimizer.step()


def test_a_loss_that_is_not_finite_discards_gradients(
    parts: tuple[Any, Module, Optimizer],
) -> None:
    state, module, optimizer = parts
    train(module, optimizer, BATCHES[:3])
    before = values(state)
    x, labels = BATCHES[3]
    with pytest.raises(odt.TrainingError, match="the loss must be finite, but"):
        module(np.full_like(x, 3e38) * np.sign(x), labels)
    with pytest.raises(odt.TrainingError, match="must follow a training step"):
        optimizer.step()
    assert all(a.tobytes() == before[name].tobytes() for name, a in values(state).items())
    assert np.isfinite(module(x, labels))


def test_running_statistics_move_as_in_the_first_step(tmp_path: Path) -> None:
    """Of a network whose backward phase reuses the memory of the batch's statistics."""
    rng = np.random.default_rng(3)
    file, frozen = OnnxFile(), ["mean1", "variance1", "mean2", "variance2"]
    file.inputs.append(value("x", ("N", 3, 12, 12)))
    file.outputs.append(value("y", ("N", 4)))
    shapes = {"w1": (8, 3, 3, 3), "w2": (16, 8, 3, 3), "b2": (16,), "w3": (4, 16), "b3": (4,)}
    weights = {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    for k, n in ((1, 8), (2, 16)):
        weights |= {f"{name}{k}": np.ones(n, np.float32) for name in ("gamma", "variance")}
        weights |= {f"{name}{k}": np.zeros(n, np.float32) for name in ("beta", "mean")}
    file.constants(weights)
    vectors = [[f"{n}{k}" for n in ("gamma", "beta", "mean", "variance")] for k in (1, 2)]
    file.add("Conv", "x", "w1", outputs=["c1"], pads=[1, 1, 1, 1])
    file.add("BatchNormalization", "c1", *vectors[0], outputs=["n1"], momentum=0.5)
    file.add("Relu", "n1", outputs=["r1"])
    file.add("MaxPool", "r1", outputs=["p1"], kernel_shape=[2, 2], strides=[2, 2])
    file.add("Conv", "p1", "w2", "b2", outputs=["c2"], pads=[1, 1, 1, 1], strides=[2, 2])
    file.add("BatchNormalization", "c2", *vectors[1], outputs=["n2"], momentum=0.5)
    file.add("Relu", "n2", outputs=["r2"])
    file.add("GlobalAveragePool", "r2", outputs=["p2"])
    file.add("Flatten", "p2", outputs=["f"])
    file.add("Gemm", "f", "w3", "b3", outputs=["y"], transB=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", odt.OdtWarning)
        artifacts.generate_artifacts(
            file.write(tmp_path / "m.onnx"),
            requires_grad=[n for n in weights if n not in frozen],
            frozen_params=frozen,
            loss=artifacts.LossType.CrossEntropyLoss,
            optimizer=artifacts.OptimType.AdamW,
            artifact_directory=tmp_path,
        )
    state = CheckpointState.load_checkpoint(tmp_path / "checkpoint")
    moved = []
    with Module(tmp_path / "training_model.onnx", state) as module:
        optimizer = Optimizer(tmp_path / "optimizer_model.onnx", module)
        optimizer.set_learning_rate(0)
        x, labels = rng.normal(1, 2, (8, 3, 12, 12)).astype(np.float32), rng.integers(0, 4, 8)
        for n in (8, 5, 5, 5, 5):  # the short batches have another program
            module(x[:n], labels[:n])
            optimizer.step()
            module.lazy_reset_grad()
            moved.append({name: state.parameters[name].data for name in frozen})
    for name in frozen:
        batch = 2 * moved[1][name] - moved[0][name]
        expected = moved[0][name]
        for each in moved[1:]:
            expected = 0.5 * expected + 0.5 * batch
            np.testing.assert_allclose(each[name], expected, rtol=1e-5, err_msg=name)
