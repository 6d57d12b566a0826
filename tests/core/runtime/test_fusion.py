"""Calls that are merged when they are bound give the bits that they give one by one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.networks import ArrayData
from support.paths import GOLDEN, MODELS

import odt
from odt.core.export.model_builder import ModelBuilder
from odt.core.formats.reader import read_model
from odt.core.model.training_info import TrainingInfo
from odt.core.runtime import fuse_calls as fusion
from odt.core.runtime import program
from odt.core.training.trainer import Trainer
from odt.kernels.native import library

CASES = {
    "cnn": (GOLDEN / "mnist" / "model.circle", 5),
    "resnet8": (MODELS / "mlperf-tiny-resnet8-cifar10.tflite", 12),
    "mobilenet": (MODELS / "mlperf-tiny-vww-mobilenetv1-0.25-96.tflite", 60),
}

pytestmark = pytest.mark.skipif(not library.is_available(), reason="no compiled kernels")


@pytest.mark.parametrize("options", [{"workers": 1}, {"workers": 2, "micro_batch": 1}])
@pytest.mark.parametrize("name", CASES)
def test_merged_calls_give_the_same_bits(
    name: str, options: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, least = CASES[name]
    results = []
    merged = fusion.merged
    for fuse in (True, False):
        found: list[int] = []

        def choose(*arguments: object, fuse: bool = fuse, found: list[int] = found) -> object:
            pairs = merged(*arguments) if fuse else {}  # type: ignore[arg-type]
            found.append(len(pairs))
            return pairs

        monkeypatch.setattr(program, "merged", choose)
        info = TrainingInfo(loss="categorical_crossentropy", batch_size=4)
        with Trainer(read_model(path).graph, info, **options) as trainer:  # type: ignore[arg-type]
            rng = np.random.default_rng(1)
            shape, classes = trainer.runtime.input_specs[0].shape, trainer.runtime.target_specs[0]
            data = ArrayData(
                [rng.random((4, *shape), np.float32)],
                [np.eye(classes.shape[-1], dtype=np.float32)[[0, 1, 1, 0]]],
            )
            losses = [trainer.step(data, 4) for _ in range(3)]
            weights = [a.tobytes() for a in trainer.parameters.tensors.values()]
        results.append((losses, weights))
        assert max(found) >= least if fuse else not any(found)
    assert results[0] == results[1]


@pytest.mark.parametrize("name", CASES)
def test_ten_steps_are_those_of_numpy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compares the loss of each step and the change of the weights."""
    path, _ = CASES[name]
    info = TrainingInfo(loss="categorical_crossentropy", batch_size=4, learning_rate=1e-4)
    losses, moves = [], []
    for kernels in ("numpy", library.kernels_in_use()):
        monkeypatch.setenv("ODT_KERNELS", kernels)
        with Trainer(read_model(path).graph, info, micro_batch=2, workers=2) as trainer:
            rng = np.random.default_rng(2)
            shape, classes = trainer.runtime.input_specs[0].shape, trainer.runtime.target_specs[0]
            x = rng.random((4, *shape), np.float32)
            y = np.eye(classes.shape[-1], dtype=np.float32)[[1, 0, 1, 0]]
            before = [a.copy() for a in trainer.parameters.tensors.values()]
            losses.append([trainer.step(ArrayData([x], [y]), 4) for _ in range(10)])
            after = trainer.parameters.tensors.values()
            moves.append(
                np.concatenate([(a - b).ravel() for a, b in zip(after, before, strict=True)])
            )
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-3)
    np.testing.assert_allclose(losses[1][0], losses[0][0], rtol=1e-5)
    assert np.linalg.norm(moves[1] - moves[0]) < 0.05 * np.linalg.norm(moves[0])


@pytest.mark.parametrize("kernels", library.instruction_sets())
def test_products_add_to_other_values(
    kernels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers add to the results of others, forward and backward; 24 units fill no vectors."""
    monkeypatch.setenv("ODT_KERNELS", kernels)
    merged = fusion.merged
    for units, expected in ((32, 7), (24, 0)):
        built = ModelBuilder("circle", seed=2)
        x = built.add_input((1, 30, units))
        for k in range(4):
            weights = [built.add_weight((units, units), units, f"{k}{n}") for n in "ab"]
            layers = [
                built.add_operator("FULLY_CONNECTED", [x, w], (1, 30, units), keep_num_dims=True)
                for w in weights
            ]
            x = built.add_operator("ADD", layers, (1, 30, units))
        path = tmp_path / f"{units}.circle"
        built.write(path, built.add_operator("TANH", [x], (1, 30, units)))
        results = []
        for fuse in (True, False):
            found: list[int] = []

            def choose(*arguments: Any, fuse: bool = fuse, found: list[int] = found) -> object:
                pairs = merged(*arguments) if fuse else {}
                found.append(sum("addend" in extra for _, extra in pairs.values()))
                return pairs

            monkeypatch.setattr(program, "merged", choose)
            options: dict[str, Any] = {"loss": "mean_squared_error", "batch_size": 2}
            with odt.Trainer(path, **options) as trainer:
                values = np.random.default_rng(3).normal(size=(2, 30, units)).astype(np.float32)
                for _ in range(3):
                    trainer.train_on_batch(values, values)
                trained = [a.tobytes() for a in trainer.weights.values()]
                results.append((trained, trainer.predict(values).tobytes()))
            assert max(found) == (expected if fuse else 0)
        assert results[0] == results[1]
