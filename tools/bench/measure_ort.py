"""ONNX Runtime: measure_ort.py NETWORK BATCH full|last FILES; makes its files the first time."""

import importlib.util
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networks
import numpy as np
from measuring import Measurement, write_once

name, batch, mode, files = sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
folder = files / "ort" / f"{name}-{mode}"


def without_torch() -> None:
    """onnxruntime.training imports PyTorch, which training does not need."""
    found = importlib.util.find_spec("onnxruntime")
    package = types.ModuleType("onnxruntime.training")
    package.__path__ = [os.path.join(os.path.dirname(found.origin), "training")]
    import onnxruntime  # noqa: F401

    sys.modules["onnxruntime.training"] = package


def write_files(made: Path) -> None:
    without_torch()
    from onnx import helper, numpy_helper

    net = networks.NETWORKS[name]()
    nodes, constants = [], []

    def constant(key: str, a: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(a), key))
        return key

    def name_of(k: int) -> str:
        return "x" if k < 0 else f"v{k}"

    def node(kind: str, ins: list[str], out: str, **attributes: object) -> None:
        nodes.append(helper.make_node(kind, ins, [out], **attributes))

    for key, value in (("zero", 0), ("three", 3), ("six", 6), ("sixth", 1 / 6)):
        constant(key, np.float32(value))
    for k, layer in enumerate(net.layers):
        ins, out = [name_of(s) for s in layer.sources], name_of(k)
        raw = out + "_raw" if layer.activation else out
        if layer.kind in ("conv", "depthwise"):
            apart = layer.kind == "depthwise"
            w = layer.w.transpose((3, 0, 1, 2) if apart else (0, 3, 1, 2))
            ins += [constant(f"w{k}", w), constant(f"b{k}", layer.b)]
            node(
                "Conv", ins, raw, kernel_shape=layer.size, strides=[layer.stride] * 2,
                pads=layer.symmetric * 2, group=w.shape[0] if apart else 1,
            )  # fmt: skip
        elif layer.kind == "dense":
            w, source = layer.w, layer.sources[0]
            if source >= 0 and net.layers[source].kind == "flatten":
                h, v, c = net.shape_of(net.layers[source].sources[0])
                w = w.reshape(-1, h, v, c).transpose(0, 3, 1, 2).reshape(w.shape)
            ins += [constant(f"w{k}", w), constant(f"b{k}", layer.b)]
            node("Gemm", ins, raw, transB=1)
        elif layer.kind == "max_pool":
            node("MaxPool", ins, raw, kernel_shape=layer.size, strides=layer.size)
        elif layer.kind == "mean_pool" or (layer.kind == "mean" and len(layer.shape) > 1):
            node("GlobalAveragePool", ins, raw)
        elif layer.kind == "mean":
            node("GlobalAveragePool", ins, raw + "_4")
            node("Flatten", [raw + "_4"], raw, axis=1)
        elif layer.kind == "flatten":
            node("Flatten", ins, raw, axis=1)
        else:
            node(layer.kind.capitalize(), ins, raw)
        if layer.activation:
            activate(node, layer.activation, raw, out)
    save([c for c in constants if any(c.name in n.input for n in nodes)], nodes, net, made)


def activate(node: Callable[..., None], activation: str, raw: str, out: str) -> None:
    """Adds an activation; composes HardSigmoid and HardSwish, which have no gradients in ORT."""
    if activation == "relu":
        node("Relu", [raw], out)
    elif activation == "relu6":
        node("Clip", [raw, "zero", "six"], out)
    else:
        node("Add", [raw, "three"], raw + "_3")
        node("Clip", [raw + "_3", "zero", "six"], raw + "_c")
        factors = [raw + "_c", "sixth"]
        if activation == "hard_swish":
            node("Mul", factors, raw + "_s")
            factors = [raw, raw + "_s"]
        node("Mul", factors, out)


def save(constants: list[Any], nodes: list[Any], net: networks.Network, made: Path) -> None:
    """Writes the files from which ONNX Runtime trains."""
    import onnx
    from onnx import TensorProto, helper
    from onnxruntime.training import artifacts

    shape = net.input if len(net.input) == 1 else (net.input[2], *net.input[:2])
    result = f"v{len(net.layers) - 1}"
    graph = helper.make_graph(
        nodes,
        net.name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *shape])],
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, ["N", net.classes])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    keys = [f"{letter}{k}" for k, _ in net.weights() for letter in "wb"]
    trained = keys[-2:] if mode == "last" else keys
    artifacts.generate_artifacts(
        model,
        requires_grad=trained,
        frozen_params=[k for k in keys if k not in trained],
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=str(made),
    )


write_once(folder, write_files)
x, _, labels = networks.random_batch(*networks.SAMPLES[name], batch)
x = np.ascontiguousarray(np.moveaxis(x, -1, 1))
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
    loss = model(x, labels)
    adam.step()
    model.lazy_reset_grad()
    return float(loss)


measurement.finish(step)
