"""odt.compat.ort normalizes batches as ONNX Runtime 1.19.2 does, which tables there showed.

Steps of training use the statistics of the batch, also in frozen layers. Running statistics move if
they are parameters, although they are frozen; in neither list, they are constants and stay.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.batch_norm_network import (
    RATE,
    STATISTICS,
    Reference,
    batches,
    constants,
    network,
)

import odt
from odt.compat.ort import artifacts
from odt.compat.ort.api import CheckpointState, Module, Optimizer

ALL, HEAD = ("w1", "gamma", "beta", "w2", "b2"), ("w2", "b2")
CASES: dict[str, tuple[tuple[str, ...], tuple[str, ...], bool]] = {
    "statistics frozen": (ALL, STATISTICS, True),
    "statistics in neither list": (ALL, (), False),
    "the head alone, all others frozen": (HEAD, ("w1", "gamma", "beta", *STATISTICS), True),
    "the head alone, others in neither list": (HEAD, (), False),
}


def opened(
    folder: Path, trained: tuple[str, ...], frozen: tuple[str, ...], training_mode: int = 0
) -> tuple[CheckpointState, Module, Optimizer]:
    artifacts.generate_artifacts(
        network(folder / "m.onnx", training_mode),
        requires_grad=trained,
        frozen_params=frozen,
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=artifacts.OptimType.SGD,
        artifact_directory=folder,
    )
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    module = Module(folder / "training_model.onnx", state, folder / "eval_model.onnx")
    optimizer = Optimizer(folder / "optimizer_model.onnx", module)
    optimizer.set_learning_rate(RATE)
    return state, module, optimizer


@pytest.mark.parametrize("training_mode", [0, 1])
@pytest.mark.parametrize("case", CASES)
def test_steps_and_running_statistics(case: str, training_mode: int, tmp_path: Path) -> None:
    trained, frozen, moves = CASES[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", odt.OdtWarning)
        state, module, optimizer = opened(tmp_path, trained, frozen, training_mode)
    reference, before = Reference(), Reference().w
    for x, labels in batches(8, 8, 5, 11):  # a short batch, and one that is longer than the others
        assert module(x, labels) == pytest.approx(reference.step(x, labels, trained), abs=1e-5)
        optimizer.step()
        module.lazy_reset_grad()
    expected = reference.w if moves else reference.w | {name: before[name] for name in STATISTICS}
    module.export_model_for_inferencing(tmp_path / "trained.onnx", ["y"])
    CheckpointState.save_checkpoint(state, tmp_path / "state")
    stored = constants(tmp_path / "trained.onnx")
    again = CheckpointState.load_checkpoint(tmp_path / "state")
    for name, a in expected.items():
        np.testing.assert_allclose(stored[name], a, rtol=1e-4, atol=1e-5, err_msg=name)
        if name in (*trained, *frozen):
            np.testing.assert_array_equal(again.parameters[name].data, stored[name])
    x, labels = next(batches(8))
    y = odt.Trainer(tmp_path / "trained.onnx", loss="mse").predict(x)
    p = np.exp(y) / np.exp(y).sum(1, keepdims=True)
    evaluated = -np.log(p[np.arange(8), labels]).mean()
    assert module.eval()(x, labels) == pytest.approx(evaluated, rel=1e-5)


def test_what_moves_is_said_once(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        _, module, optimizer = opened(tmp_path, ALL, STATISTICS)
        for x, labels in batches(8, 8):
            module(x, labels)
            optimizer.step()
    (line,) = (str(w.message) for w in said)
    assert "with the statistics of each batch, as in ONNX Runtime. 2 of 2 running" in line


def test_running_statistics_cannot_train(tmp_path: Path) -> None:
    names: Any = (*ALL, "mean")
    with pytest.raises(
        odt.OptionError, match=r"`requires_grad=`: must not name running stat.*mean"
    ):
        opened(tmp_path, names, ())
