#!/bin/sh
# LiteRT's ADD of int16 gives other sums of the same two integers at the end of a tensor.
#
# The two inputs hold one integer each in all their elements. One would expect a single sum. The kernel
# computes whole blocks of 16 elements with vectors, which round an input once when they bring it to the
# common scale. The elements that are left over are computed one by one, and rounded twice there. So are
# all elements if the shapes differ, in SUB, and by the reference kernels. 2 to 5 of 10,000 random sums
# are a step apart.
#
# ai-edge-litert 2.3.0 on x86-64, Python 3.11; output, for 7222 with the scale 0.0001 and -844 with the
# scale 0.0003 as the scale 0.0004 (1172.5 without rounding):
#   31 elements, by default  1172 x 16, 1173 x 15
#   31 elements, reference   1173 x 31
# Exit status 1 if all sums are equal.
# For odt: evaluation of int16 rounds each element as LiteRT does (kernels/families/short_sum.py,
# tests/judges/test_quantized_operators.py).
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ai-edge-litert==2.3.0
"$folder/venv/bin/python" - 2>"$folder/log" <<'PYTHON'
import sys
from importlib.metadata import version
from itertools import groupby

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

print(f"ai-edge-litert {version('ai-edge-litert')}")
COUNT = 31
INTEGERS = 7222, -844
SCALES = 1e-4, 3e-4, 4e-4  # of both inputs and of the output


def model():
    """Bytes of a model that adds two int16 tensors."""
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.ADD
    code.version = 3
    graph = schema.SubGraphT()
    graph.tensors = []
    for scale in SCALES:
        tensor = schema.TensorT()
        tensor.shape, tensor.type, tensor.buffer = [1, COUNT], schema.TensorType.INT16, 0
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale, tensor.quantization.zeroPoint = [scale], [0]
        graph.tensors.append(tensor)
    graph.inputs, graph.outputs = [0, 1], [2]
    node = schema.OperatorT()
    node.inputs, node.outputs = graph.inputs, graph.outputs
    node.builtinOptionsType, node.builtinOptions = (
        schema.BuiltinOptions.AddOptions,
        schema.AddOptionsT(),
    )
    node.builtinOptions.potScaleInt16 = False
    graph.operators = [node]
    whole = schema.ModelT()
    whole.version, whole.operatorCodes, whole.subgraphs = 3, [code], [graph]
    whole.buffers = [schema.BufferT()]
    builder = flatbuffers.Builder(1024)
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def sums(kernels):
    interpreter = Interpreter(model_content=model(), experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    for detail, integer in zip(interpreter.get_input_details(), INTEGERS):
        interpreter.set_tensor(detail["index"], np.full((1, COUNT), integer, np.int16))
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[0].tolist()


results = {
    "by default": sums(OpResolverType.AUTO),
    "reference": sums(OpResolverType.BUILTIN_REF),
}
for name, values in results.items():
    runs = ", ".join(f"{value} x {len(list(same))}" for value, same in groupby(values))
    print(f"{COUNT} elements, {name:<11} {runs}")
if len(set(results["by default"])) == 1:
    print("changed: all elements have the same sum")
    sys.exit(1)
PYTHON
