#!/bin/sh
# onnxruntime leaves out a Dropout that trains, unless it reads an input of the model or is an output.
#
# PyTorch exports a model in training mode with Dropout nodes whose input training_mode is true: by the
# definition of ONNX their results are random. One would expect that onnxruntime either computes them so
# or ignores the mode, which is for training. An optimization of graphs that is on by default removes
# such a node between two others, so predictions are those of evaluation; a node that reads an input of
# the model, or whose result is an output, is not removed and gives random zeros. Without optimizations
# all do. The same layers are thus deterministic or random, depending on what stands beside them and on
# a session option.
#
# onnxruntime 1.32.0, onnx 1.23.2, Python 3.11; output:
#   between two nodes: 0 of 1000 values are zero
#   of an input: 508 of 1000 values are zero
#   an output: 491 of 1000 values are zero
#   between two nodes, not optimized: 487 of 1000 values are zero
# (numbers of zeros differ from run to run). Exit status 1 if the first is not 0 or another one is.
# For odt: a Dropout of an ONNX file has no effect; one that trains beside an input or an output is
# refused (docs/onnx.md, What is supported).
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2
"$folder/venv/bin/python" - <<'PYTHON'
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

print(f"onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}")
OFF = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL


def zeros(of_input=False, is_output=False, level=None):
    """Returns how many of 1000 values become zero in a Dropout of one half that trains."""
    nodes = [] if of_input else [helper.make_node("Exp", ["x"], ["e"])]
    inputs = ["x" if of_input else "e", "ratio", "mode"]
    nodes.append(helper.make_node("Dropout", inputs, ["y" if is_output else "d"]))
    if not is_output:
        nodes.append(helper.make_node("Relu", ["d"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1000])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1000])],
        [
            numpy_helper.from_array(np.float32(0.5), "ratio"),
            numpy_helper.from_array(np.array(True), "mode"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    if level is not None:
        options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (y,) = session.run(None, {"x": np.ones(1000, np.float32)})
    return int((y == 0).sum())


removed, first, last, plain = zeros(), zeros(True), zeros(False, True), zeros(level=OFF)
print(f"between two nodes: {removed} of 1000 values are zero")
print(f"of an input: {first} of 1000 values are zero")
print(f"an output: {last} of 1000 values are zero")
print(f"between two nodes, not optimized: {plain} of 1000 values are zero")
if removed or not first or not last or not plain:
    sys.exit("CHANGED: a Dropout that trains is computed or left out in all cases")
PYTHON
