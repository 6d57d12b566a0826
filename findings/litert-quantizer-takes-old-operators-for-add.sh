#!/bin/sh
# LiteRT's quantizer takes every operator of TFLite files from before 2020 for ADD, and leaves dense layers
# and convolutions as floats without a word.
#
# The schema has two fields for the code of an operator: deprecated_builtin_code of 8 bits, which older
# converters wrote alone, and builtin_code, whose default is 0, the code of ADD. Runtimes take the larger
# of the two, so that these files run everywhere, such as MLPerf Tiny's autoencoder. One would expect the
# quantizer to read them as well, or to refuse them. It reads builtin_code alone. Weights of ADD are not
# quantized by dynamic recipes: the quantizer reports success, and writes the same floats.
#
# litert-quantizer 0.11.0, Python 3.11; output, of a file with a dense layer of 64 x 64 weights:
#   builtin_code 9, deprecated_builtin_code 9: weights INT8
#   builtin_code 0, deprecated_builtin_code 9: weights FLOAT32
#   LiteRT runs both
# Exit status 1 if the weights of both files are quantized, or the older one is refused.
# For odt: odt quantize reads both fields; tests that judge by the quantizer raise builtin_code
# (tests/support/quantizer_files.py).
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet litert-quantizer==0.11.0
"$folder/venv/bin/python" - "$folder/m.tflite" >"$folder/out" 2>"$folder/log" <<'PYTHON' || true
import sys
from importlib.metadata import version

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from litert_quantizer import quantizer, recipe

print(f"= litert-quantizer {version('litert-quantizer')}")
SIZE, FULLY_CONNECTED = 64, schema.BuiltinOperator.FULLY_CONNECTED


def tensor(name, shape, buffer=0):
    made = schema.TensorT()
    made.name, made.shape, made.buffer = name, shape, buffer
    made.type = schema.TensorType.FLOAT32
    return made


def dense(builtin_code):
    """Bytes of a file with a dense layer."""
    code = schema.OperatorCodeT()
    code.builtinCode, code.deprecatedBuiltinCode, code.version = builtin_code, FULLY_CONNECTED, 1
    node = schema.OperatorT()
    node.inputs, node.outputs = [0, 1, -1], [2]
    node.builtinOptionsType = schema.BuiltinOptions.FullyConnectedOptions
    node.builtinOptions = schema.FullyConnectedOptionsT()
    graph = schema.SubGraphT()
    graph.tensors = [tensor("x", [1, SIZE]), tensor("w", [SIZE, SIZE], 1), tensor("y", [1, SIZE])]
    graph.operators, graph.inputs, graph.outputs = [node], [0], [2]
    model = schema.ModelT()
    model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
    model.buffers = [schema.BufferT(), schema.BufferT()]
    weights = np.random.default_rng(0).normal(size=(SIZE, SIZE)).astype(np.float32)
    model.buffers[1].data = weights.reshape(-1).view(np.uint8)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


names = {v: k for k, v in vars(schema.TensorType).items() if isinstance(v, int)}
found = []
for code in (FULLY_CONNECTED, 0):
    data = dense(code)
    Interpreter(model_content=data).allocate_tensors()
    open(sys.argv[1], "wb").write(data)
    made = quantizer.Quantizer(sys.argv[1], recipe.dynamic_wi8c_afp32()).quantize().quantized_model
    (w,) = (t for t in schema.ModelT.InitFromPackedBuf(made).subgraphs[0].tensors if t.name == b"w")
    found.append(names[w.type])
    print(f"= builtin_code {code}, deprecated_builtin_code {FULLY_CONNECTED}: weights {found[-1]}")
print("= LiteRT runs both")
if found != ["INT8", "FLOAT32"]:
    print("= changed: the quantizer reads both codes, or neither")
    sys.exit(1)
print("= as described")
PYTHON
sed -n 's/^= //p' "$folder/out" | grep -v '^as described' # the quantizer prints a summary of its own
grep -q '^= as described' "$folder/out" || { tail -n 1 "$folder/log"; exit 1; }
