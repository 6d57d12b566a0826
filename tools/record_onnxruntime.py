"""Records how onnxruntime-training 1.19.2 trains a small network, for tests/golden_onnxruntime.

In an environment of its own, because its 841 MB need an older NumPy:
pip install 'numpy<2' onnxruntime-training==1.19.2 onnx==1.16.1 h5py
python tools/record_onnxruntime.py tests/golden_onnxruntime/mlp.npz

The network has two dense layers with a ReLU between them. The file holds data and initial weights,
and for each case of CASES the losses of 20 steps, the evaluated loss and the weights afterwards; of
"accumulated", also the gradients of the first step, summed over two batches. "rates" are the
learning rates of LinearLRScheduler.
"""

import importlib
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

STEPS, BATCH, INPUTS, HIDDEN, OUTPUTS = 20, 8, 6, 10, 3
WEIGHTS = ("w0", "b0", "w1", "b1")
WARMUP, TOTAL = 4, 16  # steps of the schedule

Arrays = dict[str, Any]


def training() -> types.SimpleNamespace:
    """Modules of onnxruntime.training, whose own __init__ needs PyTorch."""
    import onnxruntime

    package = types.ModuleType("onnxruntime.training")
    package.__path__ = [str(Path(onnxruntime.__file__).parent / "training")]
    sys.modules["onnxruntime.training"] = package
    names = ("onnxblock", "artifacts", "api")
    loaded = {n: importlib.import_module(f"onnxruntime.training.{n}") for n in names}
    return types.SimpleNamespace(**loaded)


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


# Name → loss, targets, optimizer, batches of a step, schedule or not. SGD gets a rate of 0.05 and
# AdamW one of 0.01.
Case = tuple[str, str, Callable[[types.SimpleNamespace], Any], int, bool]
CASES: dict[str, Case] = {
    "CrossEntropyLoss, AdamW": (
        "CrossEntropyLoss",
        "labels",
        lambda t: t.artifacts.OptimType.AdamW,
        1,
        False,
    ),
    "CrossEntropyLoss, SGD": (
        "CrossEntropyLoss",
        "labels",
        lambda t: t.artifacts.OptimType.SGD,
        1,
        False,
    ),
    "MSELoss, AdamW": ("MSELoss", "values", lambda t: t.artifacts.OptimType.AdamW, 1, False),
    "MSELoss, SGD": ("MSELoss", "values", lambda t: t.artifacts.OptimType.SGD, 1, False),
    "BCEWithLogitsLoss, SGD": (
        "BCEWithLogitsLoss",
        "bits",
        lambda t: t.artifacts.OptimType.SGD,
        1,
        False,
    ),
    "L1Loss, SGD": ("L1Loss", "values", lambda t: t.artifacts.OptimType.SGD, 1, False),
    "decay": ("MSELoss", "values", lambda t: t.onnxblock.optim.AdamW(weight_decay=0.1), 1, False),
    "accumulated": ("MSELoss", "values", lambda t: t.artifacts.OptimType.SGD, 2, False),
    "scheduled": ("MSELoss", "values", lambda t: t.artifacts.OptimType.SGD, 1, True),
}


def train(case: Case, arrays: Arrays, folder: Path) -> Arrays:
    """Losses, the evaluated loss and weights of a case, and rates and gradients if it has them."""
    t = training()
    loss, targets, optimizer, micro_steps, scheduled = case
    t.artifacts.generate_artifacts(
        network(arrays),
        requires_grad=list(WEIGHTS),
        loss=getattr(t.artifacts.LossType, loss),
        optimizer=optimizer(t),
        artifact_directory=folder,
    )
    state = t.api.CheckpointState.load_checkpoint(folder / "checkpoint")
    module = t.api.Module(folder / "training_model.onnx", state, folder / "eval_model.onnx")
    steps = t.api.Optimizer(folder / "optimizer_model.onnx", module)
    sgd = "learning_rate" if optimizer(t) is t.artifacts.OptimType.SGD else ""
    rate = 0.05 if sgd else 0.01
    steps.set_learning_rate(rate)
    # 1.19.2 takes both numbers in the wrong order.
    schedule = t.api.LinearLRScheduler(steps, TOTAL, WARMUP, rate) if scheduled else None
    found: Arrays = {"losses": [], "rates": [steps.get_learning_rate()]}
    for k in range(STEPS):
        found["losses"].append(float(module(arrays["x"][k], arrays[targets][k])))
        if (k + 1) % micro_steps:
            continue
        if micro_steps > 1 and "gradient" not in found:
            found["gradient"] = np.array(state.parameters["w0"].grad)
        steps.step()
        if schedule:
            schedule.step()
            found["rates"].append(steps.get_learning_rate())
        module.lazy_reset_grad()
    found["evaluated"] = float(module.eval()(arrays["x"][0], arrays[targets][0]))
    found |= {n: np.array(state.parameters[n].data) for n in WEIGHTS}
    return found if schedule else {n: a for n, a in found.items() if n != "rates"}


def main(path: str) -> None:
    """Writes the recorded file."""
    arrays = random_arrays()
    record = dict(arrays)
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            found = train(case, arrays, Path(folder))
        record |= {f"{name}: {key}": np.asarray(value) for key, value in found.items()}
    np.savez_compressed(path, **record)


if __name__ == "__main__":
    main(sys.argv[1])
