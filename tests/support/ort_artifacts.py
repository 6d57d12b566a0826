"""Artifacts of odt.compat.ort for a small network, and modules made from them."""

from pathlib import Path
from typing import Any

import numpy as np
from model_builder import ModelBuilder

from odt.compat.ort import artifacts
from odt.compat.ort.api import CheckpointState, Module, Optimizer

RNG = np.random.default_rng(7)
X = RNG.normal(size=(12, 6)).astype(np.float32)
LABELS = RNG.integers(0, 3, 12)
VALUES = RNG.normal(size=(12, 3)).astype(np.float32)
HEAD, FIRST = ["w1", "b1"], ["w0", "b0"]  # parameters


def network(path: Path, *, outputs: int = 1) -> Path:
    """Writes a network of 6 → 5 → 3 values "y"; its second output "h" is the hidden layer."""
    builder = ModelBuilder("tflite", seed=1)
    tensors = [builder.add_input((1, 6), name="x")]
    for k, (units, width) in enumerate(((5, 6), (3, 5))):
        w = builder.add_weight((units, width), width, f"w{k}")
        b = builder.add_constant(np.full(units, 0.1, np.float32), f"b{k}")
        relu: dict[str, Any] = {} if k else {"fused_activation_function": 1}
        y = builder.add_operator("FULLY_CONNECTED", [tensors[-1], w, b], (1, units), **relu)
        builder.graph.tensors[y].name = "yh"[k == 0]
        tensors.append(y)
    builder.write(path, *tensors[: -1 - outputs : -1])
    return path


def generate(folder: Path, loss: Any = artifacts.LossType.CrossEntropyLoss, **options: Any) -> Path:
    """Writes the artifacts of the network to the folder "artifacts"."""
    given: dict[str, Any] = {"optimizer": artifacts.OptimType.AdamW, **options}
    model = given.pop("model", None) or network(folder / "net.tflite")
    artifacts.generate_artifacts(model, loss=loss, artifact_directory=folder / "artifacts", **given)
    return folder / "artifacts"


def opened(folder: Path, checkpoint: Path | None = None) -> tuple[CheckpointState, Module]:
    """The state of a checkpoint, by default that of the artifacts, and a module with it."""
    state = CheckpointState.load_checkpoint(checkpoint or folder / "checkpoint")
    return state, Module(folder / "training_model.json", state, folder / "eval_model.json")


def with_optimizer(folder: Path, rate: float = 0.1) -> tuple[CheckpointState, Module, Optimizer]:
    """Likewise, with an optimizer."""
    state, module = opened(folder)
    optimizer = Optimizer(folder / "optimizer_model.json", module)
    optimizer.set_learning_rate(rate)
    return state, module, optimizer


def copied(state: CheckpointState) -> dict[str, Any]:
    """The values of all parameters."""
    return {name: parameter.data for name, parameter in state.parameters}
