"""Five more steps of ONNX Runtime from checkpoints with the optimizer's state.

    python ort_continues.py RUNS.json RESULTS.npz

It needs onnxruntime-training 1.19.2, onnx 1.16.2 and NumPy 1. A run names the files of a training,
an evaluation and an optimizer model, a checkpoint, an .npz with batches and a learning rate.
"""

import json
import os
import sys
import types
from typing import Any

import numpy as np

STEPS = 5


def batch(data: Any, k: int) -> list[Any]:
    """Returns the arrays of a batch."""
    return [data[name] for i in range(3) if (name := f"{k}_{i}") in data]


def steps(module: Any, optimizer: Any, data: Any) -> list[float]:
    """Trains; returns the losses of the steps, and that of an evaluation after them."""
    losses = []
    module.train()
    for k in range(STEPS):
        losses.append(float(module(*batch(data, k))))
        optimizer.step()
        module.lazy_reset_grad()
    module.eval()
    return [*losses, float(module(*batch(data, 0)))]


def main() -> None:
    import onnxruntime

    # onnxruntime.training imports torch; what is used here does not need it.
    training = types.ModuleType("onnxruntime.training")
    training.__path__ = [os.path.join(os.path.dirname(onnxruntime.__file__), "training")]
    sys.modules["onnxruntime.training"] = training
    from onnxruntime.training.api import CheckpointState, Module, Optimizer

    onnxruntime.set_default_logger_severity(4)
    results = {}
    with open(sys.argv[1], encoding="utf-8") as file:
        runs = json.load(file)
    for name, run in runs.items():
        state = CheckpointState.load_checkpoint(run["checkpoint"])
        module = Module(run["training"], state, run["evaluation"])
        optimizer = Optimizer(run["optimizer"], module)
        optimizer.set_learning_rate(run["rate"])
        results[f"{name}/losses"] = np.array(steps(module, optimizer, np.load(run["data"])))
        results[f"{name}/buffer"] = module.get_contiguous_parameters(False).numpy()
    np.savez(sys.argv[2], **results)  # type: ignore[arg-type]  # names are not options


if __name__ == "__main__":
    main()
