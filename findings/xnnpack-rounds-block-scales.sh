#!/bin/sh
# XNNPACK rounds the float16 scales of 4-bit blocks to bfloat16; LiteRT's built-in kernel does not.
#
# In a TFLite file, weights with a scale for each block of 32 have their scales in a float16 tensor. One
# would expect kernels to compute with these numbers, of 11 significant bits. XNNPACK, which runs by
# default, first rounds them to the 8 significant bits of bfloat16, so that weights differ by up to 0.4 %
# from what the file says: the scale 1.00293 counts as 1, and 1.99902 as 2. Built-in kernels use float16.
#
# ai-edge-litert 2.3.0 on x86-64, Python 3.11; output, of a layer whose weight 7 s is multiplied by 1,
# divided by 7:
#   scale 1.00000: by default 1.00000, built-in 1.00000
#   scale 1.00293: by default 1.00000, built-in 1.00293
#   scale 1.00488: by default 1.00781, built-in 1.00488
#   scale 1.99902: by default 2.00000, built-in 1.99902
# Exit status 1 if both kernel sets use the same scales.
# For odt: odt quantize chooses scales of blocks among the numbers that both formats hold
# (core/quantization/weights.py).
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
UNITS, BLOCK, INTEGER = 4, 32, 7
KERNELS = {
    "by default": OpResolverType.AUTO,
    "built-in": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
}


def tensor(name, shape, kind, buffer=0):
    made = schema.TensorT()
    made.name, made.shape, made.type, made.buffer = name, shape, kind, buffer
    return made


def layer(scale):
    """Bytes of a dense layer with 4-bit weights of the integer 7 and one scale for each unit."""
    kinds = schema.TensorType
    w = tensor("w", [UNITS, BLOCK], kinds.INT4, 1)
    details = schema.BlockwiseQuantizationT()
    details.scales, details.zeroPoints, details.blockSize = 2, -1, BLOCK
    w.quantization = schema.QuantizationParametersT()
    w.quantization.detailsType = schema.QuantizationDetails.BlockwiseQuantization
    w.quantization.details = details
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.FULLY_CONNECTED
    code.version = 12
    node = schema.OperatorT()
    node.inputs, node.outputs = [0, 1, -1], [3]
    node.builtinOptionsType = schema.BuiltinOptions.FullyConnectedOptions
    node.builtinOptions = schema.FullyConnectedOptionsT()
    graph = schema.SubGraphT()
    graph.tensors = [
        tensor("x", [1, BLOCK], kinds.FLOAT32),
        w,
        tensor("scales", [UNITS, 1], kinds.FLOAT16, 2),
        tensor("y", [1, UNITS], kinds.FLOAT32),
    ]
    graph.operators, graph.inputs, graph.outputs = [node], [0], [3]
    model = schema.ModelT()
    model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
    model.buffers = [schema.BufferT() for _ in range(3)]
    model.buffers[1].data = np.full(UNITS * BLOCK // 2, INTEGER * 17, np.uint8)
    model.buffers[2].data = np.full(UNITS, scale, np.float16).view(np.uint8)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def weight(scale, kernels):
    """The first weight that a kernel set computes with, divided by its integer."""
    interpreter = Interpreter(model_content=layer(scale), experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.eye(1, BLOCK, dtype=np.float32))
    interpreter.invoke()
    return float(interpreter.get_tensor(3)[0, 0]) / INTEGER


SCALES = [1, 1 + 3 / 1024, 1 + 5 / 1024, 2 - 1 / 1024]  # numbers of float16
used = {name: [weight(s, kernels) for s in SCALES] for name, kernels in KERNELS.items()}
for scale, default, builtin in zip(SCALES, used["by default"], used["built-in"]):
    print(f"scale {scale:.5f}: by default {default:.5f}, built-in {builtin:.5f}")
rounded = [1, 1, 1 + 1 / 128, 2]  # the nearest numbers of bfloat16
for name, wanted in (("by default", rounded), ("built-in", SCALES)):
    if not np.allclose(used[name], wanted, atol=2e-5):
        print(f"changed: {name}, a layer uses other scales than described")
        sys.exit(1)
PYTHON
