#!/bin/sh
# ONNX Runtime's Attention answers zeros for a query whose mask is the lowest float32 everywhere, and the
# mean of all values if the mask is any other large negative number.
#
# A float mask of ONNX's Attention is added to the scores. Exporters hide keys with the lowest float32,
# -1e9 or -inf, which one would expect to be the same to a softmax: a row that hides all keys (a padded
# query) has equal scores, and gives the mean of all values, or NaN for -inf. ONNX Runtime 1.32.0 takes
# the lowest number for "hidden" and answers such a row with zeros, as it does for -inf; -1e30 gives the
# mean. ONNX's own evaluator gives the mean for the lowest number and zeros for -inf. If the same
# formula stands in the file as MatMul, Add and Softmax, both give the mean, or NaN for -inf. Padded
# rows change when an exporter, or an optimizer that fuses the operators, changes.
#
# onnxruntime 1.32.0, onnx 1.23.2, Python 3.11; output, one of the values of such a row, whose mean is 3:
#   mask -3.4e+38: Attention 0, onnx's evaluator 3; operators 3, onnx's evaluator 3
#   mask -1e+30:   Attention 3, onnx's evaluator 3; operators 3, onnx's evaluator 3
#   mask -inf:     Attention 0, onnx's evaluator 0; operators nan, onnx's evaluator nan
# Exit status 1 if Attention gives something else.
# For odt: its Attention gives zeros for both, as ONNX Runtime does (core/lowering/onnx/attention.py).
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2
cd "$folder"
venv/bin/python - 2>"$folder/log" <<'PYTHON'
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

print(f"onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}")
SHAPES = {"q": (1, 1, 2, 4), "k": (1, 1, 3, 4), "v": (1, 1, 3, 4), "mask": (2, 3), "y": (1, 1, 2, 4)}


def model(*nodes):
    info = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in SHAPES.items()}
    inputs = [info[name] for name in ("q", "k", "v", "mask")]
    half = helper.make_tensor("half", TensorProto.FLOAT, (), [0.5])
    graph = helper.make_graph([helper.make_node(*node) for node in nodes], "g", inputs, [info["y"]], [half])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


attention = model(("Attention", ["q", "k", "v", "mask"], ["y"]))
operators = model(
    ("Mul", ["q", "half"], ["scaled"]),
    ("Reshape", ["k", "turned"], ["columns"]),
    ("MatMul", ["scaled", "columns"], ["scores"]),
    ("Add", ["scores", "mask"], ["masked"]),
    ("Softmax", ["masked"], ["weights"]),
    ("MatMul", ["weights", "v"], ["y"]),
)
turned = helper.make_tensor("turned", TensorProto.INT64, (4,), [1, 1, 4, 3])
operators.graph.initializer.append(turned)  # the order of the keys' values does not matter here
arrays = {name: np.ones(SHAPES[name], np.float32) for name in ("q", "k")}
arrays["v"] = np.array([[[[1.0] * 4, [3.0] * 4, [5.0] * 4]]], np.float32)
answers = []
for mask in (np.finfo(np.float32).min, -1e30, -np.inf):
    arrays["mask"] = np.array([[0] * 3, [mask] * 3], np.float32)
    row = []
    for file in (attention, operators):
        (y,) = onnxruntime.InferenceSession(file.SerializeToString()).run(None, arrays)
        with np.errstate(all="ignore"):
            (reference,) = ReferenceEvaluator(file).run(None, arrays)
        row += [float(y[0, 0, 1, 0]), float(reference[0, 0, 1, 0])]
    answers.append(row[0])
    name = f"mask {mask:.2g}:"
    print(
        f"{name:14} Attention {row[0]:.3g}, onnx's evaluator {row[1]:.3g}; "
        f"operators {row[2]:.3g}, onnx's evaluator {row[3]:.3g}"
    )
if not np.allclose(answers, [0, 3, 0]):
    sys.exit("changed: Attention answers rows that are hidden as a whole in another way")
PYTHON
