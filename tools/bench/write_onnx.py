"""Writes the ONNX files of tools/bench/onnx_files.py: write_onnx.py NAME FOLDER DATA.

Runs in the environment of ONNX Runtime, which has onnx. Beside NAME.onnx it writes NAME.json with
the weights that train, the running statistics, the loss, and the shapes of a sample and a target.
"""

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZES = 784, 500, 10
WHEEL = "openwakeword==0.4.0"  # Apache-2.0
MEMBER = "openwakeword/resources/models/embedding_model.onnx"


def mlp(data: Path, folder: Path) -> Any:
    """The network of ONNX Runtime's training tutorials: two dense layers."""
    rng, constants = np.random.default_rng(3), []
    for k in (1, 2):
        shape = SIZES[k], SIZES[k - 1]
        for name, values in (
            (f"fc{k}.weight", rng.normal(0, (2 / shape[1]) ** 0.5, shape)),
            (f"fc{k}.bias", np.zeros(shape[0])),
        ):
            constants.append(numpy_helper.from_array(values.astype(np.float32), name))
    nodes = [
        helper.make_node("Gemm", ["input", "fc1.weight", "fc1.bias"], ["a"], transB=1),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Gemm", ["b", "fc2.weight", "fc2.bias"], ["output"], transB=1),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", n])
        for name, n in (("input", SIZES[0]), ("output", SIZES[-1]))
    ]
    graph = helper.make_graph(nodes, "mlp", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])
    model.ir_version = 8
    return model


def cnn(data: Path, folder: Path) -> Any:
    """The small network with BatchNormalization of the recorded trajectories."""
    return onnx.load(data / "onnx/golden/out/cnn.onnx")


def embedding(data: Path, folder: Path) -> Any:
    """The 20 convolutions of openWakeWord's embedding of sound."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", WHEEL]
    subprocess.run([*command, "--dest", str(folder)], check=True)
    (wheel,) = folder.glob("openwakeword-*.whl")
    with zipfile.ZipFile(wheel) as files:
        return onnx.load_model_from_string(files.read(MEMBER))


FILES: dict[str, Callable[[Path, Path], Any]] = {"mlp": mlp, "cnn": cnn, "embedding": embedding}


def main(name: str, folder: Path, data: Path) -> None:
    """Writes one model and what is trained of it."""
    model = FILES[name](data, folder)
    graph = model.graph
    weights, running = set(), set()
    for node in graph.node:
        if node.op_type in ("Conv", "Gemm", "MatMul", "BatchNormalization"):
            weights.update(node.input[1:3])
        if node.op_type == "BatchNormalization":
            running.update(node.input[3:5])
    names = [i.name for i in graph.initializer]
    x, y = (
        [d.dim_value for d in ends[0].type.tensor_type.shape.dim][1:]
        for ends in ([v for v in graph.input if v.name not in names], graph.output)
    )
    facts = {
        "trained": [n for n in names if n in weights],
        "frozen": [n for n in names if n in running],
        "loss": "cce" if len(y) == 1 else "mse",
        "input": x,
        "output": y,
    }
    onnx.save(model, folder / f"{name}.onnx")
    (folder / f"{name}.json").write_text(json.dumps(facts))


main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
