#!/bin/sh
# onert trains each reader of a shared weight apart, and exports the copy of the last one.
#
# Two layers of a file may read one weight tensor. One would expect that training adds up the gradients
# of both, or that such a file is refused, and that an exported file answers as the session that has
# trained it. onert 0.1.0 gives each layer a copy and its own part of the gradient, and exports the copy
# of the last layer for both: the loss that it has reached is not the loss of the file.
#
# onert 0.1.0, ai-edge-litert 2.3.0 (for its schema), Python 3.11; output:
#   loss before                3.906
#   loss in the session        0.000153
#   loss of the exported file  0.361
#   parameters of the file come from the last layer's gradients alone: True
# Exit status 1 if the exported file holds anything else.
# For odt: one tensor is one weight, and its gradients are added up; docs/one-compatibility.md, "tied
# weights".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onert==0.1.0 ai-edge-litert==2.3.0
cd "$folder"
venv/bin/python - 2>"$folder/log" <<'PYTHON'
import contextlib
import io
import sys
from importlib.metadata import version
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from onert import infer
from onert.experimental.train import losses, optimizer, session

print(f"onert {version('onert')}")


def write_model(weights, layers):
    """Writes m.tflite: dense layers in turn, each with the weights (outputs, inputs) of an index."""
    file, graph = schema.ModelT(), schema.SubGraphT()
    file.version, file.subgraphs, file.buffers = 3, [graph], [schema.BufferT()]
    graph.tensors, graph.operators = [], []

    def tensor(shape, values=None):
        new = schema.TensorT()
        new.shape, new.type, new.buffer = list(shape), schema.TensorType.FLOAT32, 0
        new.name = f"tensor {len(graph.tensors)}".encode()
        if values is not None:
            data = schema.BufferT()
            data.data = np.frombuffer(np.asarray(values, np.float32).tobytes(), np.uint8)
            file.buffers.append(data)
            new.buffer = len(file.buffers) - 1
        graph.tensors.append(new)
        return len(graph.tensors) - 1

    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.FULLY_CONNECTED
    code.version = 1
    file.operatorCodes = [code]
    constants = [(tensor(w.shape, w), tensor(w.shape[:1], np.zeros(len(w)))) for w in weights]
    x = tensor((1, weights[layers[0]].shape[1]))
    graph.inputs = [x]
    for k in layers:
        node = schema.OperatorT()
        node.inputs, node.outputs = [x, *constants[k]], [tensor((1, len(weights[k])))]
        node.builtinOptionsType = schema.BuiltinOptions.FullyConnectedOptions
        node.builtinOptions = schema.FullyConnectedOptionsT()
        graph.operators.append(node)
        (x,) = node.outputs
    graph.outputs = [x]
    builder = flatbuffers.Builder(1024)
    builder.Finish(file.Pack(builder), b"TFL3")
    Path("m.tflite").write_bytes(builder.Output())


def compiled(rule, loss, batch_size=1, metrics=()):
    """Returns a session that trains m.tflite."""
    new = session("m.tflite")
    with contextlib.redirect_stdout(io.StringIO()):
        new.compile(rule, loss(reduction="mean"), list(metrics), batch_size)
    return new


w = np.array([[1, 0.5], [-0.5, 1]], np.float32)
x, target = np.array([[1, 2]], np.float32), np.zeros((1, 2), np.float32)
write_model([w], [0, 0])
trained = compiled(optimizer.SGD(0.1), losses.MeanSquaredError)
before = trained.train_step([x], [target])["loss"][0]
inside = trained.eval_step([x], [target])["loss"][0]
trained.session.train_export_circle("o.circle")
(y,) = infer.session("o.circle").infer([x])
outside = float(np.mean((y - target) ** 2))

hidden = x @ w.T
gradient = hidden @ w.T  # that of the mean of two squares, with target 0, is the output
last, bias = w - 0.1 * np.outer(gradient, hidden), -0.1 * gradient
alone = np.allclose(y, (x @ last.T + bias) @ last.T + bias, atol=1e-6)
print(f"loss before                {before:.4g}")
print(f"loss in the session        {inside:.3g}")
print(f"loss of the exported file  {outside:.3g}")
print("parameters of the file come from the last layer's gradients alone:", alone)
if np.isclose(inside, outside) or not alone:
    sys.exit("changed: the exported file is no longer that of the last layer's gradients alone")
PYTHON
