#!/bin/sh
# onert trains on the cross-entropy of logits, and validates on another number.
#
# A model whose last layer is linear returns logits. One would expect that training and validation print
# the same loss for the same weights and samples. onert 0.1.0 takes the softmax of the logits when it
# trains, and leaves it out when it evaluates: its validation loss is -log of the logit itself, which is
# not a cross-entropy, falls below 0 as logits grow, and moves apart from the loss that is trained.
# A stop by validation loss, or a comparison of both for overfitting, has no meaning there.
#
# onert 0.1.0, ai-edge-litert 2.3.0 (for its schema), Python 3.11; output for logits 2, 1 and 0.5, or 4, 2
# and 3, where the last class is right:
#   logits 2 1 0.5: train_step 1.964, eval_step  0.693; cross-entropy 1.964, -log(logit)  0.693
#   logits 4 2 3:   train_step 1.408, eval_step -1.099; cross-entropy 1.408, -log(logit) -1.099
# Exit status 1 if eval_step has the loss of train_step.
# For odt: validation takes the softmax as training does; docs/one-compatibility.md, "cross-entropy on
# logits, in validation".
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
target = np.array([[0, 0, 1]], np.float32)
same = False
for logits in ([2, 1, 0.5], [4, 2, 3]):
    x = np.array([logits], np.float32)
    trained = compiled(optimizer.SGD(1e-9), losses.CategoricalCrossentropy)
    by_train = trained.train_step([x], [target])["loss"][0]
    by_eval = trained.eval_step([x], [target])["loss"][0]
    right, wrong = np.log(np.exp(x).sum()) - x[0, 2], -np.log(x[0, 2])
    name = "logits " + " ".join(f"{v:g}" for v in logits) + ":"
    print(
        f"{name:15} train_step {by_train:.3f}, eval_step {by_eval:6.3f}; "
        f"cross-entropy {right:.3f}, -log(logit) {wrong:6.3f}"
    )
    same |= bool(np.isclose(by_train, by_eval))
if same:
    sys.exit("changed: eval_step has the loss of train_step")
PYTHON
