"""ONNX Runtime: measure_ort.py NETWORK BATCH full|last FILES; makes its files the first time."""

import importlib.util
import os
import sys
import types
from pathlib import Path

import numpy as np

from bench import networks
from bench.measuring import Measurement, write_once

name, batch, mode, files = sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
folder = files / "ort" / f"{name}-{mode}"
net = networks.NETWORKS[name]()


def without_torch() -> None:
    """Makes modules of onnxruntime.training importable without the package's __init__.

    The __init__ imports PyTorch, which training does not need.
    """
    spec = importlib.util.find_spec("onnxruntime")
    package = types.ModuleType("onnxruntime.training")
    package.__path__ = [os.path.join(os.path.dirname(spec.origin), "training")]
    import onnxruntime  # noqa: F401

    sys.modules["onnxruntime.training"] = package


def channels_first(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[-1], *shape[:-1]) if len(shape) > 2 else shape


def write_files(folder: Path) -> None:
    """Writes the files from which ONNX Runtime trains."""
    without_torch()
    import onnx
    from onnx import TensorProto, helper
    from onnxruntime.training import artifacts

    from bench.measure_ort_model import OnnxGraph

    parts = OnnxGraph(net)
    kind = TensorProto.INT32 if net.vocabulary else TensorProto.FLOAT
    x, y = (["N", *channels_first(shape)] for shape in (net.input, net.output))
    graph = helper.make_graph(
        parts.nodes,
        name,
        [helper.make_tensor_value_info("x", kind, x)],
        [helper.make_tensor_value_info(parts.output, TensorProto.FLOAT, y)],
        parts.constants,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 8
    onnx.checker.check_model(model)
    trained = parts.weights[-2:] if mode == "last" else parts.weights
    losses = {"cce": artifacts.LossType.CrossEntropyLoss, "mse": artifacts.LossType.MSELoss}
    artifacts.generate_artifacts(
        model,
        requires_grad=trained,
        frozen_params=[k for k in parts.weights if k not in trained],
        loss=losses[net.loss],
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=str(folder),
    )


write_once(folder, write_files)
x, y = networks.random_batch(net, batch)
x, y = (np.ascontiguousarray(np.moveaxis(a, -1, 1)) if a.ndim > 3 else a for a in (x, y))
if net.loss == "cce":
    y = y.argmax(1)
measurement = Measurement()

without_torch()
import onnxruntime as ort  # noqa: E402
from onnxruntime.training.api import CheckpointState, Module, Optimizer  # noqa: E402

ort.set_default_logger_severity(3)
options = ort.SessionOptions()
options.intra_op_num_threads = 2
options.log_severity_level = 3
state = CheckpointState.load_checkpoint(str(folder / "checkpoint"))
model = Module(
    str(folder / "training_model.onnx"), state, None, device="cpu", session_options=options
)
adam = Optimizer(str(folder / "optimizer_model.onnx"), model)
adam.set_learning_rate(1e-5)
model.train()


def step() -> float:
    loss = model(x, y)
    adam.step()
    model.lazy_reset_grad()
    return float(loss)


measurement.finish(step)
