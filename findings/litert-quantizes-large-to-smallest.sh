#!/bin/sh
# QUANTIZE of LiteRT's built-in kernels turns large positive numbers into -128 on x86-64, and the default
# kernels turn them into 127.
#
# QUANTIZE limits results to the range of int8, so that one would expect 127 for everything above it,
# infinity included, in every kernel set. The built-in kernels (and the reference ones) convert the
# quotient to a 32-bit integer before they limit it. Beyond 2^31 the conversion of x86-64 gives the
# smallest integer; adding a negative zero point to it wraps to a large one, so that the zero point decides
# between -128 and 127. XNNPACK, which runs by default, saturates. A file with an operator in float
# between integers, such as RSQRT of a value that rounds to 0, thus has other outputs without XNNPACK.
#
# ai-edge-litert 2.3.0 on x86-64, Python 3.11; output, of inputs inf, 1e30, 3e9, 200 and -200 with the
# scale 0.1:
#   zero point -128, by default: [127, 127, 127, 127, -128]
#   zero point -128, built-in: [127, 127, 127, 127, -128]
#   zero point 0, by default: [127, 127, 127, 127, -128]
#   zero point 0, built-in: [-128, -128, -128, 127, -128]
# Exit status 1 if both kernel sets agree.
# For odt: QUANTIZE saturates as XNNPACK does, and training limits RSQRT, LOG and DIV between integers
# (core/integers/fake_quantize.py).
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ai-edge-litert==2.3.0
"$folder/venv/bin/python" - 2>"$folder/log" <<'PYTHON'
import sys
from importlib.metadata import version

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

print(f"ai-edge-litert {version('ai-edge-litert')}")
VALUES = np.array([np.inf, 1e30, 3e9, 200, -200], np.float32)
KERNELS = {
    "by default": OpResolverType.AUTO,
    "built-in": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
}


def quantize_model(zero_point):
    """Bytes of a model that quantizes five numbers to int8 with the scale 0.1."""
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.QUANTIZE
    code.version = 1
    real, whole = schema.TensorT(), schema.TensorT()
    real.shape, real.type, real.buffer = [5], schema.TensorType.FLOAT32, 0
    whole.shape, whole.type, whole.buffer = [5], schema.TensorType.INT8, 0
    whole.quantization = schema.QuantizationParametersT()
    whole.quantization.scale, whole.quantization.zeroPoint = [0.1], [zero_point]
    node = schema.OperatorT()
    node.inputs, node.outputs = [0], [1]
    graph = schema.SubGraphT()
    graph.tensors, graph.operators, graph.inputs, graph.outputs = [real, whole], [node], [0], [1]
    model = schema.ModelT()
    model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
    model.buffers = [schema.BufferT()]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


answers = {}
for zero_point in (-128, 0):
    for name, kernels in KERNELS.items():
        interpreter = Interpreter(
            model_content=quantize_model(zero_point), experimental_op_resolver_type=kernels
        )
        interpreter.allocate_tensors()
        interpreter.set_tensor(0, VALUES)
        interpreter.invoke()
        answers[zero_point, name] = interpreter.get_tensor(1).tolist()
        print(f"zero point {zero_point}, {name}: {answers[zero_point, name]}")
default, builtin = answers[0, "by default"], answers[0, "built-in"]
if default[:3] != [127] * 3 or builtin[:3] != [-128] * 3:
    print("changed: QUANTIZE treats large numbers otherwise than described")
    sys.exit(1)
PYTHON
