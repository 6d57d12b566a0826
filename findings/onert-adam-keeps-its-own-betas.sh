#!/bin/sh
# The betas and epsilon that onert's Adam takes change nothing.
#
# onert's class Adam has documented parameters beta1, beta2 and epsilon, and stores them. One would
# expect that training uses them, or that values other than the defaults are refused, as its SGD refuses
# a momentum. onert 0.1.0 passes only the learning rate to the runtime: all settings give the same bits,
# also beta1 = 0 (no momentum) and an epsilon of 10, which would make steps ten times shorter.
#
# onert 0.1.0, ai-edge-litert 2.3.0 (for its schema), Python 3.11; output, losses of four steps:
#   defaults               3.0000 1.1567 0.2884 0.1285
#   beta1 = 0, beta2 = 0   3.0000 1.1567 0.2884 0.1285
#   epsilon = 10           3.0000 1.1567 0.2884 0.1285
# Exit status 1 if the losses differ.
# For odt: they are used; docs/one-compatibility.md, "Adam(beta1, beta2, epsilon)".
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


write_model([np.eye(3, dtype=np.float32)], [0])
x, target = np.array([[1, 2, 3]], np.float32), np.array([[0, 0, 1]], np.float32)
runs = []
for name, values in (
    ("defaults", {}),
    ("beta1 = 0, beta2 = 0", {"beta1": 0.0, "beta2": 0.0}),
    ("epsilon = 10", {"epsilon": 10.0}),
):
    trained = compiled(optimizer.Adam(0.1, **values), losses.MeanSquaredError)
    runs.append([trained.train_step([x], [target])["loss"][0] for _ in range(4)])
    print(f"{name:22}", *(f"{loss:.4f}" for loss in runs[-1]))
if runs[1:] != runs[:1] * 2:
    sys.exit("changed: onert's Adam uses its betas and epsilon")
PYTHON
