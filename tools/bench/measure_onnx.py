"""One system on an ONNX file: measure_onnx.py NAME BATCH THREADS FILES HOW.

`ort`, `ort-alone` and `compat` run the same calls: of ONNX Runtime, which imports PyTorch, of ONNX
Runtime without it, and of odt.compat.ort. `odt` and `odt-fixed` are odt.Trainer with the statistics
of batches, as ONNX Runtime has, and with those of the file.
"""

import importlib
import importlib.util
import json
import os
import sys
import types
from pathlib import Path

import numpy as np

from bench.measuring import Measurement, write_once

name, batch, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
files, how = Path(sys.argv[4]), sys.argv[5]
# Before any system counts the cores.
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
facts = json.loads((files / f"{name}.json").read_text())
path = str(files / f"{name}.onnx")
RATE, EPSILON = 1e-5, 1e-6


def training(module: str) -> types.ModuleType:
    """Imports a module of onnxruntime.training, or that of odt in its place."""
    if how == "compat":
        return importlib.import_module(f"odt.compat.ort.{module}")
    if how == "ort-alone" and "onnxruntime.training" not in sys.modules:
        # The package imports PyTorch, which training does not need.
        spec = importlib.util.find_spec("onnxruntime")
        assert spec is not None
        assert spec.origin is not None
        package = types.ModuleType("onnxruntime.training")
        package.__path__ = [os.path.join(os.path.dirname(spec.origin), "training")]
        importlib.import_module("onnxruntime")
        sys.modules["onnxruntime.training"] = package
    return importlib.import_module(f"onnxruntime.training.{module}")


def write_artifacts(folder: Path) -> None:
    artifacts = training("artifacts")
    losses = {
        "cce": artifacts.LossType.CrossEntropyLoss,
        "mse": artifacts.LossType.MSELoss,
    }
    model = path
    if how != "compat":
        import onnx

        model = onnx.load(path)
    artifacts.generate_artifacts(
        model,
        requires_grad=facts["trained"],
        frozen_params=facts["frozen"],
        loss=losses[facts["loss"]],
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=str(folder),
    )


rng = np.random.default_rng(3)
x = rng.random((batch, *facts["input"]), np.float32)
y = rng.random((batch, *facts["output"]), np.float32)
if facts["loss"] == "cce":
    y = rng.integers(0, facts["output"][0], batch)

if how in ("ort", "ort-alone", "compat"):
    folder = files / f"{name}-{how}"
    write_once(folder, write_artifacts)
    measurement = Measurement()
    api = training("api")
    options = {}
    if how != "compat":
        import onnxruntime

        options["session_options"] = onnxruntime.SessionOptions()
        options["session_options"].intra_op_num_threads = threads
    state = api.CheckpointState.load_checkpoint(str(folder / "checkpoint"))
    ends = (str(folder / f"{part}_model.onnx") for part in ("training", "eval"))
    model = api.Module(next(ends), state, next(ends), device="cpu", **options)
    optimizer = api.Optimizer(str(folder / "optimizer_model.onnx"), model)
    optimizer.set_learning_rate(RATE)
    model.train()

    def step() -> float:
        loss = model(x, y)
        optimizer.step()
        model.lazy_reset_grad()
        return float(loss)

else:
    measurement = Measurement()
    import odt

    losses = {"cce": "sparse_categorical_crossentropy", "mse": "mean_squared_error"}
    has_norm = bool(facts["frozen"])
    trainer = odt.Trainer(
        path,
        loss=losses[facts["loss"]],
        optimizer=odt.OrtAdamW(RATE, epsilon=EPSILON, weight_decay=0),
        batch_size=batch,
        trainable=odt.select(*facts["trained"]),
        batch_norm="batch" if how == "odt" and has_norm else None,
    )

    def step() -> float:
        return float(trainer.train_on_batch(x, y)["loss"])


measurement.finish(step)
