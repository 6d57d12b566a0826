#!/bin/sh
# The accuracy that onert prints is the share of samples of class 0.
#
# onert's train session takes CategoricalAccuracy as a metric. One would expect the share of samples
# whose largest output is at the place of the largest target. onert 0.1.0 passes arrays of zeros to the
# runtime for the outputs, the runtime never fills them in training or evaluation, and the largest of
# zeros is at place 0: the metric is the share of class 0, whatever the model answers, and does not
# change while the model learns. The loss beside it is right.
#
# onert 0.1.0, ai-edge-litert 2.3.0 (for its schema), Python 3.11; output of a model that returns its
# input, with the targets as inputs, so that its loss is 0 and its true accuracy 1:
#   classes 0 1 2 1: loss 0, CategoricalAccuracy 0.25
#   classes 0 0 0 1: loss 0, CategoricalAccuracy 0.75
#   classes 1 2 2 1: loss 0, CategoricalAccuracy 0.00
# Exit status 1 if the metric is 1.
# For odt: accuracy is computed from the outputs; docs/one-compatibility.md, "accuracy".
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
from onert.experimental.train import losses, metrics, optimizer, session

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


write_model([np.eye(3, dtype=np.float32)], [0])
shares = []
for classes in ([0, 1, 2, 1], [0, 0, 0, 1], [1, 2, 2, 1]):
    rows = np.eye(3, dtype=np.float32)[classes]
    accuracy = metrics.CategoricalAccuracy()
    trained = compiled(optimizer.SGD(0.1), losses.MeanSquaredError, 4, [accuracy])
    step = trained.eval_step([rows], [rows])
    shares.append(step["metrics"]["CategoricalAccuracy"])
    names = " ".join(map(str, classes))
    print(f"classes {names}: loss {step['loss'][0]:.0f}, CategoricalAccuracy {shares[-1]:.2f}")
if shares != [0.25, 0.75, 0]:
    sys.exit("changed: the metric is no longer the share of class 0")
PYTHON
