#!/bin/sh
# onert converts float64 arrays when it predicts, and takes their bytes for float32 when it trains.
#
# NumPy's own dtype is float64, and `infer` of onert 0.1.0 converts arrays of other dtypes. One would
# expect the same, or an error, from `train_step` and `eval_step`. They read the bytes of the array as
# float32, for inputs and for targets, without a word: the low half of the first float64 is the first
# number, and the last samples of a batch are never read. Only `train` with a DataLoader converts targets.
#
# onert 0.1.0, ai-edge-litert 2.3.0 (for its schema), Python 3.11; output:
#   infer: float32 [1, 2, 3], float64 [1, 2, 3]
#   loss by eval_step: float32 3.000, float64 inputs 0.333, float64 targets 4.667
# Exit status 1 if eval_step converts float64, or infer does so no longer.
# For odt: arrays of any compatible dtype are copied; docs/one-compatibility.md, "arrays".
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


write_model([np.eye(3, dtype=np.float32)], [0])
x, target = np.array([[1, 2, 3]], np.float32), np.array([[0, 0, 1]], np.float32)
wide_x, wide_target = x.astype(np.float64), target.astype(np.float64)
answers = [infer.session("m.tflite").infer([a])[0][0].astype(int).tolist() for a in (x, wide_x)]
print(f"infer: float32 {answers[0]}, float64 {answers[1]}")
evaluated = []
for inputs, targets in ((x, target), (wide_x, target), (x, wide_target)):
    trained = compiled(optimizer.SGD(0.1), losses.MeanSquaredError)
    evaluated.append(trained.eval_step([inputs], [targets])["loss"][0])
right, by_input, by_target = evaluated
print(
    f"loss by eval_step: float32 {right:.3f}, float64 inputs {by_input:.3f}, "
    f"float64 targets {by_target:.3f}"
)
if answers[0] != answers[1] or np.isclose(right, by_input) or np.isclose(right, by_target):
    sys.exit("changed: eval_step converts float64, or infer does not")
PYTHON
