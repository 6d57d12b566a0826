#!/bin/sh
# After ONNX Runtime's dynamic quantization, the answer to a sample depends on the others in its batch.
#
# quantize_dynamic stores weights as 8 bits and rounds inputs while the model runs, with a scale that fits
# them. A network without statistics of batches answers each sample by itself, and one would expect the
# same here: a scale for each sample, as LiteRT's kernels for such weights take it. ONNX Runtime takes one
# for the whole tensor. A sample with large values leaves few steps to the others, or none, so that
# accuracy depends on the batch size, and an evaluation in batches is not that of single samples.
#
# onnxruntime 1.32.0, onnx 1.23.2, Python 3.11; output of a layer whose weights are the identity, for the
# sample 0.1 0.2 0.3 0.4:
#   alone:                         0.1 0.201 0.3 0.4
#   beside a sample of 10 and 0:   0.118 0.196 0.314 0.392
#   beside a sample of 100 and 0:  0 0.392 0.392 0.392
# Exit status 1 if the sample has the same answer in all batches.
# For odt: weights of 8 bits keep inputs as floats, and a sample has one answer in every batch
# (docs/quantize-model.md, "Activations").
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
from onnxruntime.quantization import quantize_dynamic

print(f"onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}")
node = helper.make_node("MatMul", ["x", "w"], ["y"])
x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])
y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])
weights = numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
graph = helper.make_graph([node], "graph", [x], [y], [weights])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.save(model, "float.onnx")
quantize_dynamic("float.onnx", "quantized.onnx")
session = onnxruntime.InferenceSession("quantized.onnx")
sample, answers = [0.1, 0.2, 0.3, 0.4], []
for others in ([], [[10, 0, 0, 0]], [[100, 0, 0, 0]]):
    answer = session.run(None, {"x": np.array([sample, *others], np.float32)})[0][0]
    name = f"beside a sample of {others[0][0]} and 0:" if others else "alone:"
    print(f"{name:30} {' '.join(f'{value:.3g}' for value in answer)}")
    answers.append(answer)
if np.allclose(answers[0], answers[2], atol=0.01):
    sys.exit("changed: the answer does not depend on the batch")
PYTHON
