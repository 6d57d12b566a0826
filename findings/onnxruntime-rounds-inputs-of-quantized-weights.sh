#!/bin/sh
# ONNX Runtime rounds the inputs of a MatMul to 8 bits if only its weights are quantized.
#
# Weights of 4 or 8 bits with a DequantizeLinear before MatMul or Gemm are the form for models that are
# small, and compute with floats: the file has no QuantizeLinear. One would expect the product of the
# float inputs with the dequantized weights, up to the order of sums. ONNX Runtime fuses the two nodes
# into MatMulNBits by default, with accuracy level 4, which rounds each block of inputs to int8 first.
# One large feature (a token that collects attention, a column in other units) makes the rest of its
# block 0. The session option session.qdq_matmulnbits_accuracy_level = 0 keeps floats, and so does a
# session without optimizations. Training that simulates the rounding of weights alone does not see it.
#
# onnxruntime 1.32.0 on x86-64, onnx 1.23.2, Python 3.11; output of a sum of 64 inputs, 1000 and 63 ones,
# whose weights are 1:
#   4 bits, blocks of 32:   by default 1032, accuracy level 0 1063
#   4 bits, one scale:      by default 1032, accuracy level 0 1063
#   8 bits, blocks of 32:   by default 1032, accuracy level 0 1063
#   8 bits, one scale:      by default 1032, accuracy level 0 1063
# Exit status 1 if the default keeps the inputs.
# For odt: such weights are refused in ONNX files (docs/onnx.md, "Supported nodes"); files of TFLite with
# quantized weights keep inputs as floats in training and evaluation.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnx==1.23.2 onnxruntime==1.32.0
"$folder/venv/bin/python" - <<'PYTHON'
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

print(f"onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}")
INPUTS, UNITS = 64, 16


def layer(kind, block):
    """A product with quantized weights that are all 1, scaled by blocks of rows or as a whole."""
    scale = np.full((INPUTS // block, UNITS), 0.25, np.float32) if block else np.float32(0.25)
    form = {"axis": 0, "block_size": block} if block else {}
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "scale"], ["w"], **form),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    weights = [
        helper.make_tensor("q", kind, [INPUTS, UNITS], [4] * (INPUTS * UNITS)),
        numpy_helper.from_array(scale, "scale"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, INPUTS])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, UNITS])
    graph = helper.make_graph(nodes, "graph", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    return model


def answer(model, level=None):
    options = onnxruntime.SessionOptions()
    if level is not None:
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", level)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    x = np.ones((1, INPUTS), np.float32)
    x[0, 0] = 1000
    return session.run(None, {"x": x})[0][0, 0]


rounds = []
for bits, kind in ((4, TensorProto.INT4), (8, TensorProto.INT8)):
    for text, block in (("blocks of 32", 32), ("one scale", 0)):
        model = layer(kind, block)
        default, exact = answer(model), answer(model, "0")
        print(f"{f'{bits} bits, {text}:':23} by default {default:.0f}, accuracy level 0 {exact:.0f}")
        rounds.append(default < 1050 < 1062 < exact)
if not all(rounds):
    sys.exit("changed: inputs of quantized weights are not rounded by default")
PYTHON
