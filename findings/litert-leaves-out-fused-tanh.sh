#!/bin/sh
# LiteRT computes ADD, DIV, CONV_2D and MAX_POOL_2D without the TANH that is fused into them.
#
# The schema lists TANH beside RELU and RELU6 as a fused activation, and its options have no other
# meaning. One would expect the activation, or a refusal as FULLY_CONNECTED gives. These kernels look up
# the limits of the activation, find none for TANH, and return the sum, quotient, convolution or maximum
# itself. All kernel sets agree, so that a comparison of them shows nothing.
#
# ai-edge-litert 2.3.0, Python 3.11; output:
#   tanh(3)          0.995
#   ADD              3.000
#   DIV              3.000
#   MAX_POOL_2D      3.000
# Exit status 1 if a kernel applies TANH, or refuses it.
# For odt: a fused TANH becomes an operator of its own in every file that is written
# (core/formats/flatbuffer/own_activations.py, docs/operators.md).
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
from ai_edge_litert.interpreter import Interpreter

print(f"ai-edge-litert {version('ai-edge-litert')}")


def model(operator, options_type, options, inputs):
    """Bytes of a model of one operator on float32 tensors (1, 2, 2, 1)."""
    options.fusedActivationFunction = schema.ActivationFunctionType.TANH
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = operator
    code.version = 1
    graph = schema.SubGraphT()
    graph.tensors = []
    for _ in range(inputs + 1):
        tensor = schema.TensorT()
        tensor.shape, tensor.type, tensor.buffer = [1, 2, 2, 1], schema.TensorType.FLOAT32, 0
        graph.tensors.append(tensor)
    graph.inputs, graph.outputs = list(range(inputs)), [inputs]
    node = schema.OperatorT()
    node.inputs, node.outputs = graph.inputs, graph.outputs
    node.builtinOptionsType, node.builtinOptions = options_type, options
    graph.operators = [node]
    whole = schema.ModelT()
    whole.version, whole.operatorCodes, whole.subgraphs = 3, [code], [graph]
    whole.buffers = [schema.BufferT()]
    builder = flatbuffers.Builder(1024)
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def first_value(content, *inputs):
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), inputs):
        interpreter.set_tensor(detail["index"], np.full((1, 2, 2, 1), value, np.float32))
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).flat[0]


pool = schema.Pool2DOptionsT()
pool.padding, pool.strideH, pool.strideW = schema.Padding.SAME, 1, 1
pool.filterHeight = pool.filterWidth = 1
operators, options = schema.BuiltinOperator, schema.BuiltinOptions
values = {
    "ADD": first_value(model(operators.ADD, options.AddOptions, schema.AddOptionsT(), 2), 1, 2),
    "DIV": first_value(model(operators.DIV, options.DivOptions, schema.DivOptionsT(), 2), 6, 2),
    "MAX_POOL_2D": first_value(model(operators.MAX_POOL_2D, options.Pool2DOptions, pool, 1), 3),
}
print(f"{'tanh(3)':<16} {np.tanh(3):.3f}")
for name, value in values.items():
    print(f"{name:<16} {value:.3f}")
if any(value != 3 for value in values.values()):
    print("changed: a kernel applies the fused TANH")
    sys.exit(1)
PYTHON
