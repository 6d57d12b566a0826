"""Records how onnxruntime-training 1.19.2 trains a small network, for tests/golden_onnxruntime.

In an environment of its own, because its 841 MB need an older NumPy:
pip install 'numpy<2' onnxruntime-training==1.19.2 onnx==1.16.1 h5py
python tools/record_onnxruntime.py tests/golden_onnxruntime/mlp.npz

The network has two dense layers with a ReLU between them. The file holds data and initial weights,
and for each case of CASES the losses of 20 batches, the gradient of w0 at the first step, the
learning rates, and the evaluated loss and the weights afterwards.
"""

import importlib
import sys
import tempfile
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

STEPS, BATCH, INPUTS, HIDDEN, OUTPUTS = 20, 8, 6, 10, 3
WEIGHTS = ("w0", "b0", "w1", "b1")
WARMUP, TOTAL = 4, 16  # steps of the schedule

Arrays = dict[str, Any]
Modules = types.SimpleNamespace
Make = Callable[[Modules], Any]


def training() -> Modules:
    """Modules of onnxruntime.training, whose own __init__ needs PyTorch."""
    import onnxruntime

    package = types.ModuleType("onnxruntime.training")
    package.__path__ = [str(Path(onnxruntime.__file__).parent / "training")]
    sys.modules["onnxruntime.training"] = package
    names = ("onnxblock", "artifacts", "api")
    loaded = {n: importlib.import_module(f"onnxruntime.training.{n}") for n in names}
    return Modules(**loaded)


def random_arrays() -> Arrays:
    """Data for each kind of loss, and initial weights."""
    rng = np.random.default_rng(15)
    x = rng.normal(size=(STEPS, BATCH, INPUTS)).astype(np.float32)
    values = np.tanh(x @ rng.normal(size=(INPUTS, OUTPUTS))).astype(np.float32)
    shapes = {"w0": (HIDDEN, INPUTS), "b0": (HIDDEN,), "w1": (OUTPUTS, HIDDEN), "b1": (OUTPUTS,)}
    weights = {n: 0.5 * rng.normal(size=shape).astype(np.float32) for n, shape in shapes.items()}
    labels, bits = values.argmax(-1), (values > 0).astype(np.float32)
    return {"x": x, "values": values, "labels": labels, "bits": bits, **weights}


def network(arrays: Arrays) -> Any:
    """The network as ONNX."""
    from onnx import helper, numpy_helper

    nodes = [
        helper.make_node("Gemm", ["x", "w0", "b0"], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "w1", "b1"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("x", 1, ["n", INPUTS])],
        [helper.make_tensor_value_info("y", 1, ["n", OUTPUTS])],
        [numpy_helper.from_array(arrays[n], n) for n in WEIGHTS],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@dataclass(frozen=True)
class Case:
    """A case that is recorded.

    Attributes:
        loss, optimizer: arguments of generate_artifacts, made from the modules of `training`.
        targets: name of the array.
        rate: learning rate.
        batches: batches of a step, whose gradients are summed.
        scheduled: whether the rate follows LinearLRScheduler.
    """

    loss: Make
    targets: str
    optimizer: Make
    rate: float
    batches: int = 1
    scheduled: bool = False


def cross_entropy(t: Modules) -> Any:
    return t.artifacts.LossType.CrossEntropyLoss


def mean_squared_error(t: Modules) -> Any:
    return t.artifacts.LossType.MSELoss


def adamw(t: Modules) -> Any:
    return t.artifacts.OptimType.AdamW


def sgd(t: Modules) -> Any:
    return t.artifacts.OptimType.SGD


CASES = {
    "CrossEntropyLoss, AdamW": Case(cross_entropy, "labels", adamw, 0.01),
    "CrossEntropyLoss, SGD": Case(cross_entropy, "labels", sgd, 0.05),
    "MSELoss, AdamW": Case(mean_squared_error, "values", adamw, 0.01),
    "MSELoss, SGD": Case(mean_squared_error, "values", sgd, 0.05),
    "BCEWithLogitsLoss, SGD": Case(
        lambda t: t.artifacts.LossType.BCEWithLogitsLoss, "bits", sgd, 0.05
    ),
    "L1Loss, SGD": Case(lambda t: t.artifacts.LossType.L1Loss, "values", sgd, 0.05),
    "sum": Case(lambda t: t.onnxblock.loss.MSELoss("sum"), "values", sgd, 0.002),
    "sum of cross-entropies": Case(
        lambda t: t.onnxblock.loss.CrossEntropyLoss(reduction="sum"), "labels", sgd, 0.005
    ),
    "ignored class": Case(
        lambda t: t.onnxblock.loss.CrossEntropyLoss(ignore_index=1), "labels", sgd, 0.05
    ),
    "decay": Case(
        mean_squared_error, "values", lambda t: t.onnxblock.optim.AdamW(weight_decay=0.1), 0.01
    ),
    "clipped": Case(
        mean_squared_error,
        "values",
        lambda t: t.onnxblock.optim.SGD(t.onnxblock.optim.ClipGradNorm(0.3)),
        0.5,
    ),
    "accumulated": Case(mean_squared_error, "values", sgd, 0.05, batches=2),
    "scheduled": Case(mean_squared_error, "values", sgd, 0.05, scheduled=True),
}


def train(case: Case, arrays: Arrays, folder: Path) -> Arrays:
    """Trains a case; returns the recorded arrays by name."""
    t = training()
    t.artifacts.generate_artifacts(
        network(arrays),
        requires_grad=list(WEIGHTS),
        loss=case.loss(t),
        optimizer=case.optimizer(t),
        artifact_directory=folder,
    )
    state = t.api.CheckpointState.load_checkpoint(folder / "checkpoint")
    module = t.api.Module(folder / "training_model.onnx", state, folder / "eval_model.onnx")
    optimizer = t.api.Optimizer(folder / "optimizer_model.onnx", module)
    optimizer.set_learning_rate(case.rate)
    schedule = None
    if case.scheduled:  # 1.19.2 takes both numbers of steps in the wrong order
        schedule = t.api.LinearLRScheduler(optimizer, TOTAL, WARMUP, case.rate)
    x, targets = arrays["x"], arrays[case.targets]
    results: Arrays = {"losses": [], "rates": [optimizer.get_learning_rate()]}
    for k in range(STEPS):
        results["losses"].append(float(module(x[k], targets[k])))
        if (k + 1) % case.batches:
            continue
        results.setdefault("gradient", np.array(state.parameters["w0"].grad))
        optimizer.step()
        if schedule is not None:
            schedule.step()
            results["rates"].append(optimizer.get_learning_rate())
        module.lazy_reset_grad()
    results["evaluated"] = float(module.eval()(x[0], targets[0]))
    results |= {n: np.array(state.parameters[n].data) for n in WEIGHTS}
    return results


def main(path: str) -> None:
    """Writes the recorded file."""
    arrays = random_arrays()
    record = dict(arrays)
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            results = train(case, arrays, Path(folder))
        record |= {f"{name}: {key}": np.asarray(value) for key, value in results.items()}
    np.savez_compressed(path, **record)


if __name__ == "__main__":
    main(sys.argv[1])
