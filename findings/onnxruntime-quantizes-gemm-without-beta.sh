#!/bin/sh
# A Gemm whose beta is not 1 has another bias after ONNX Runtime's static quantization, and a third one
# when it is run.
#
# Gemm computes alpha A B + beta C. One would expect that quantize_static keeps beta, or multiplies the bias
# by it. It multiplies the scale of the integers by beta, divides the bias by this scale, so that beta
# cancels, and sets beta to 1: the file holds the bias without beta. ONNX Runtime then fuses the node into
# QGemm, which takes the integers in units of the product of the scales of input and weights and ignores
# the scale of the bias, so that beta divides the bias a second time. quantize_dynamic leaves such
# nodes as floats. PyTorch's addmm has a beta, and exports it. Multiply the bias by beta before.
#
# onnxruntime 1.32.0, onnx 1.23.2, Python 3.11; output for a product of 1 and a bias of 1:
#   beta 1:    float 2.00; quantized file, not optimized 2.01, by default 2.01
#   beta 0.5:  float 1.50; quantized file, not optimized 2.01, by default 3.01
# Exit status 1 if the quantized model computes what the float model does.
# For odt: a file that it converts, which odt quantize takes, keeps beta (docs/onnx.md, "Conversion to
# TFLite and Circle").
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnx==1.23.2 onnxruntime==1.32.0
cd "$folder"
venv/bin/python - 2>"$folder/log" <<'PYTHON'
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, quantize_static

print(f"onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}")


class Samples(CalibrationDataReader):
    """Inputs of -4 to 4, whose outputs cover the same range and more."""

    def __init__(self):
        self.samples = iter([{"x": np.array([[value]], np.float32)} for value in (-4, 4)])

    def get_next(self):
        return next(self.samples, None)


def layer(beta):
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], beta=beta)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 1])
    ones = [
        numpy_helper.from_array(np.ones((1, 1), np.float32), "w"),
        numpy_helper.from_array(np.ones(1, np.float32), "b"),
    ]
    graph = helper.make_graph([node], "graph", [x], [y], ones)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, "float.onnx")


def answer(path, optimized=True):
    options = onnxruntime.SessionOptions()
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options)
    return session.run(None, {"x": np.ones((1, 1), np.float32)})[0][0, 0]


quantized = {}
for beta in (1, 0.5):
    layer(float(beta))
    quantize_static("float.onnx", "quantized.onnx", Samples())
    plain, quantized[beta] = answer("quantized.onnx", optimized=False), answer("quantized.onnx")
    print(f"{f'beta {beta}:':10} float {answer('float.onnx'):.2f}; quantized file, ", end="")
    print(f"not optimized {plain:.2f}, by default {quantized[beta]:.2f}")
if quantized[0.5] < 1.7 or abs(quantized[1] - 2) > 0.1:
    sys.exit("changed: the quantized model keeps beta")
PYTHON
