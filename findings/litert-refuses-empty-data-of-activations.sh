#!/bin/sh
# An empty list of bytes is not the same as none: LiteRT takes it for a constant that is too short.
#
# A tensor without a value has a buffer whose field `data` is absent. One would expect that a field
# which is there and holds no bytes means the same, as most readers of flatbuffers return an empty
# list for both. LiteRT 2.3.0 refuses the model, and the message speaks of a tensor that is "invalidly
# specified", although only its buffer is meant. Files that went through a list in some language,
# through JSON with `"data": []`, or through NumPy have such fields. onert 0.1.0 loads all of them, and
# never computes an output with such a field.
#
# ai-edge-litert 2.3.0, onert 0.1.0, Python 3.11; output of a model that returns its input 1 2:
#   absent:                LiteRT [1, 2]; onert [1, 2]
#   empty, of the input:   LiteRT Tensor 2 is invalidly specified in schema.; onert [1, 2]
#   empty, of the output:  LiteRT Tensor 3 is invalidly specified in schema.; onert [0, 0]
# Exit status 1 if LiteRT loads them.
# For odt: it removes empty fields from the files that it writes (core/export/format_edit.py).
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onert==0.1.0 ai-edge-litert==2.3.0
cd "$folder"
venv/bin/python - 2>"$folder/log" <<'PYTHON'
import sys
from importlib.metadata import version
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from onert import infer

print(f"ai-edge-litert {version('ai-edge-litert')}, onert {version('onert')}")


def model(empty):
    """Bytes of a dense layer that returns its input (1, 2); `empty` names what has an empty buffer."""
    file, graph, node = schema.ModelT(), schema.SubGraphT(), schema.OperatorT()
    file.version, file.subgraphs, file.buffers = 3, [graph], [schema.BufferT()]
    graph.tensors = []

    def tensor(shape, values=None, name=""):
        new, data = schema.TensorT(), schema.BufferT()
        new.shape, new.type = shape, schema.TensorType.FLOAT32
        new.name = f"tensor {len(graph.tensors)}".encode()
        if values is not None:
            data.data = np.frombuffer(np.array(values, np.float32).tobytes(), np.uint8)
        elif name == empty:
            data.data = np.zeros(0, np.uint8)
        file.buffers.append(data)
        new.buffer = len(file.buffers) - 1
        graph.tensors.append(new)
        return len(graph.tensors) - 1

    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.FULLY_CONNECTED
    code.version = 1
    constants = [tensor([2, 2], [[1, 0], [0, 1]]), tensor([2], [0, 0])]
    x, y = tensor([1, 2], name="input"), tensor([1, 2], name="output")
    node.inputs, node.outputs = [x, *constants], [y]
    node.builtinOptionsType = schema.BuiltinOptions.FullyConnectedOptions
    node.builtinOptions = schema.FullyConnectedOptionsT()
    graph.inputs, graph.outputs, graph.operators = [x], [y], [node]
    file.operatorCodes = [code]
    builder = flatbuffers.Builder(1024)
    builder.Finish(file.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def in_litert(data, x):
    try:
        interpreter = Interpreter(model_content=data)
        interpreter.allocate_tensors()
    except ValueError as error:
        return str(error).strip().rpartition("true.")[2]
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    (output,) = interpreter.get_output_details()
    return interpreter.get_tensor(output["index"])[0].astype(int).tolist()


def in_onert(data, x):
    Path("m.tflite").write_bytes(data)
    return infer.session("m.tflite").infer([x])[0][0].astype(int).tolist()


x = np.array([[1, 2]], np.float32)
answers = []
for empty in ("", "input", "output"):
    text = f"empty, of the {empty}:" if empty else "absent:"
    answers.append(in_litert(model(empty), x))
    print(f"{text:22} LiteRT {answers[-1]}; onert {in_onert(model(empty), x)}")
if answers[0] != [1, 2] or any(isinstance(answer, list) for answer in answers[1:]):
    sys.exit("changed: LiteRT loads models with empty buffers")
PYTHON
