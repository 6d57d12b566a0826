#!/bin/sh
# onert loads a model with SPLIT_V, and leaves the parts as its memory was.
#
# SPLIT_V is an operator of the schema that onert reads, and onert refuses a model with an operator that
# it has no kernel for. One would expect the parts, or such a refusal. onert 0.1.0 returns arrays of the
# right shapes that nothing has written: zeros in a fresh process, old activations in a larger model.
# Equal sizes make no difference; SPLIT computes the same parts rightly.
#
# onert 0.1.0, ai-edge-litert 2.3.0 (for its schema, and as the other runtime), Python 3.11; output:
#   SPLIT_V of 0 1 2 3 into 1 and 3
#     LiteRT  [0] [1, 2, 3]
#     onert   [0] [0, 0, 0]
#   SPLIT of 0 1 2 3 into 2 and 2
#     LiteRT  [0, 1] [2, 3]
#     onert   [0, 1] [2, 3]
# Exit status 1 if onert computes or refuses SPLIT_V.
# For odt: conversions of ONNX models write SPLIT for equal parts and slices for others
# (core/export/builtin_forms.py).
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

print(f"onert {version('onert')}, ai-edge-litert {version('ai-edge-litert')}")
FLOAT, INT = schema.TensorType.FLOAT32, schema.TensorType.INT32


def model(operator, options_type, options, sizes):
    """Bytes of a model of one operator that divides a float32 input (1, 4) along axis 1."""
    file, graph = schema.ModelT(), schema.SubGraphT()
    file.version, file.subgraphs, file.buffers = 3, [graph], [schema.BufferT()]
    graph.tensors = []

    def tensor(shape, kind, values=None):
        new = schema.TensorT()
        new.shape, new.type, new.buffer = shape, kind, 0
        new.name = f"tensor {len(graph.tensors)}".encode()
        if values is not None:
            data = schema.BufferT()
            data.data = np.frombuffer(np.array(values, np.int32).tobytes(), np.uint8)
            file.buffers.append(data)
            new.buffer = len(file.buffers) - 1
        graph.tensors.append(new)
        return len(graph.tensors) - 1

    x, axis = tensor([1, 4], FLOAT), tensor([], INT, 1)
    is_v = operator == schema.BuiltinOperator.SPLIT_V
    inputs = [x, tensor([len(sizes)], INT, sizes), axis] if is_v else [axis, x]
    parts = [tensor([1, size], FLOAT) for size in sizes]
    code, node = schema.OperatorCodeT(), schema.OperatorT()
    code.builtinCode = code.deprecatedBuiltinCode = operator
    code.version = 1
    options.numSplits = len(sizes)
    node.inputs, node.outputs = inputs, parts
    node.builtinOptionsType, node.builtinOptions = options_type, options
    graph.inputs, graph.outputs, graph.operators = [x], parts, [node]
    file.operatorCodes = [code]
    builder = flatbuffers.Builder(1024)
    builder.Finish(file.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def in_litert(data, x):
    interpreter = Interpreter(model_content=data)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def in_onert(data, x):
    Path("m.tflite").write_bytes(data)
    return infer.session("m.tflite").infer([x])


kinds, options = schema.BuiltinOperator, schema.BuiltinOptions
split_v = model(kinds.SPLIT_V, options.SplitVOptions, schema.SplitVOptionsT(), [1, 3])
split = model(kinds.SPLIT, options.SplitOptions, schema.SplitOptionsT(), [2, 2])
x = np.arange(4, dtype=np.float32).reshape(1, 4)
right = []
for name, data in (("SPLIT_V of 0 1 2 3 into 1 and 3", split_v), ("SPLIT of 0 1 2 3 into 2 and 2", split)):
    print(name)
    theirs, ours = in_litert(data, x), in_onert(data, x)
    for runtime, parts in (("LiteRT", theirs), ("onert", ours)):
        print(f"  {runtime:7}", *(part.ravel().astype(int).tolist() for part in parts))
    right.append(all(np.array_equal(a, b) for a, b in zip(theirs, ours, strict=True)))
if right != [False, True]:
    sys.exit("changed: onert computes SPLIT_V, or computes SPLIT no longer")
PYTHON
