"""odt.compat.ort computes the losses, gradients and weights of onnxruntime-training 1.19.2.

tools/record_onnxruntime.py wrote the file: 20 batches of a small network for each case.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.onnx_files import OnnxFile, value
from support.paths import TESTS

import odt
from odt.compat.ort import artifacts, onnxblock
from odt.compat.ort.api import CheckpointState, LinearLRScheduler, Module, Optimizer

RECORDED = dict(np.load(TESTS / "golden_onnxruntime/mlp.npz"))
WEIGHTS = {"w0": "dense_0/w", "b0": "dense_0/b", "w1": "output/w", "b1": "output/b"}
CROSS_ENTROPY, SQUARED_ERROR = artifacts.LossType.CrossEntropyLoss, artifacts.LossType.MSELoss
SGD, ADAMW = artifacts.OptimType.SGD, artifacts.OptimType.AdamW
# Name → loss, targets, optimizer, as in the tool.
CASES: dict[str, tuple[Any, str, Any]] = {
    "CrossEntropyLoss, AdamW": (CROSS_ENTROPY, "labels", ADAMW),
    "CrossEntropyLoss, SGD": (CROSS_ENTROPY, "labels", SGD),
    "MSELoss, AdamW": (SQUARED_ERROR, "values", ADAMW),
    "MSELoss, SGD": (SQUARED_ERROR, "values", SGD),
    "BCEWithLogitsLoss, SGD": (artifacts.LossType.BCEWithLogitsLoss, "bits", SGD),
    "L1Loss, SGD": (artifacts.LossType.L1Loss, "values", SGD),
    "sum": (onnxblock.loss.MSELoss("sum"), "values", SGD),
    "sum of cross-entropies": (
        onnxblock.loss.CrossEntropyLoss(reduction="sum"),
        "labels",
        SGD,
    ),
    "ignored class": (onnxblock.loss.CrossEntropyLoss(ignore_index=1), "labels", SGD),
    "decay": (SQUARED_ERROR, "values", onnxblock.optim.AdamW(weight_decay=0.1)),
    "clipped": (
        SQUARED_ERROR,
        "values",
        onnxblock.optim.SGD(onnxblock.optim.ClipGradNorm(0.3)),
    ),
    "accumulated": (SQUARED_ERROR, "values", SGD),
    "scheduled": (SQUARED_ERROR, "values", SGD),
}
BATCHES = {"accumulated": 2}  # of a step


@pytest.mark.parametrize(
    ("name", "batch_size"),
    [*((name, 8) for name in CASES), ("sum", 3), ("ignored class", 3), ("accumulated", 3)]
    + [(name, 0) for name in CASES],
)
def test_training_is_that_of_onnx_runtime(name: str, batch_size: int, tmp_path: Path) -> None:
    """Batches of 8 samples, also in parts of 3; with 0, the model is an ONNX file."""
    loss, targets, optim = CASES[name]
    model: Any = odt.new_model(
        "mlp", input_shape=(6,), hidden=(10,), outputs=3, activation="linear"
    )
    suffix = "json" if batch_size else "onnx"
    if not batch_size:
        file = OnnxFile(inputs=[value("x", ("N", 6))], outputs=[value("y", ("N", 3))])
        file.constants({weight: RECORDED[key] for key, weight in WEIGHTS.items()})
        file.add("Gemm", "x", "dense_0/w", "dense_0/b", outputs=["h"], transB=1)
        file.add("Relu", "h", outputs=["r"])
        file.add("Gemm", "r", "output/w", "output/b", transB=1)
        model = file.data()
    artifacts.generate_artifacts(
        model, None, None, loss, optim, tmp_path, batch_size=batch_size or 8
    )
    recorded = {
        key.removeprefix(f"{name}: "): a
        for key, a in RECORDED.items()
        if key.startswith(f"{name}:")
    }
    state = CheckpointState.load_checkpoint(tmp_path / "checkpoint")
    for key, weight in WEIGHTS.items():
        state.parameters[weight] = RECORDED[key]
    train, evaluate, optimize = (
        tmp_path / f"{part}_model.{suffix}" for part in ("training", "eval", "optimizer")
    )
    with Module(train, state, evaluate) as module:
        optimizer = Optimizer(optimize, module)
        optimizer.set_learning_rate(float(recorded["rates"].max()))
        schedule = LinearLRScheduler(optimizer, 4, 16, 0.05) if name == "scheduled" else None
        losses, rates = [], [optimizer.get_learning_rate()]
        for k, (x, t) in enumerate(zip(RECORDED["x"], RECORDED[targets], strict=True)):
            losses.append(module(x, t))
            if (k + 1) % BATCHES.get(name, 1):
                continue
            if len(losses) == BATCHES.get(name, 1):
                gradient = np.array(state.parameters["dense_0/w"].grad)
            optimizer.step()
            if schedule:
                schedule.step()
                rates.append(optimizer.get_learning_rate())
            module.lazy_reset_grad()
        np.testing.assert_allclose(losses, recorded["losses"], rtol=1e-5)
        np.testing.assert_allclose(gradient, recorded["gradient"], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(rates, recorded["rates"], rtol=1e-6)
        evaluated = module.eval()(RECORDED["x"][0], RECORDED[targets][0])
        assert evaluated == pytest.approx(recorded["evaluated"], rel=1e-4)
        for key, weight in WEIGHTS.items():
            np.testing.assert_allclose(
                state.parameters[weight].data, recorded[key], rtol=1e-4, atol=1e-6
            )


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
@pytest.mark.parametrize("name", ["mlp", "mobile"])
def test_recorded_networks_train_from_their_files(
    name: str, optimizer: str, tmp_path: Path
) -> None:
    """The networks of tests/golden/onnx, whose weights are all parameters."""
    path = TESTS / "golden" / "onnx" / f"{name}.onnx"
    artifacts.generate_artifacts(
        path,
        requires_grad=list(odt.load_model(path).parameters),
        loss=CROSS_ENTROPY,
        optimizer=artifacts.OptimType[optimizer],
        artifact_directory=tmp_path,
    )
    state = CheckpointState.load_checkpoint(tmp_path / "checkpoint")
    batches = np.load(path.with_suffix(".npz"))
    expected = json.loads((path.parent / "losses.json").read_text())[name][optimizer]
    train, evaluate = tmp_path / "training_model.onnx", tmp_path / "eval_model.onnx"
    with Module(train, state, evaluate) as module:
        updates = Optimizer(tmp_path / "optimizer_model.onnx", module)
        updates.set_learning_rate({"SGD": 0.1, "AdamW": 0.01}[optimizer])
        for step, loss in enumerate(expected):
            x, labels = (batches[f"{step}_{k}"] for k in range(2))
            assert module(x, labels) == pytest.approx(loss, abs=1e-5)
            updates.step()
            module.lazy_reset_grad()
        if name == "mlp":
            final = np.load(path.parent / "mlp_final.npz")
            for parameter, values in state.parameters:
                recorded = final[f"{optimizer}/{parameter}"]
                np.testing.assert_allclose(values.data, recorded, rtol=0, atol=1e-5)
