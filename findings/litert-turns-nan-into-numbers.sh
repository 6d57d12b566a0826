#!/bin/sh
# Three operators of LiteRT make numbers of NaN, so that a network that has diverged passes a check of its
# outputs.
#
# One NaN in a tensor usually reaches the outputs, and "no output is NaN" is the usual check after
# training or quantization. One would expect NaN from EXP and from a maximum, or the maximum of the
# other values. EXP of XNNPACK, the default, answers 0; MAX_POOL_2D answers minus infinity for a
# window of finite values that begins with NaN; REDUCE_MAX forgets all values before the last NaN, in
# the built-in kernels too. The position of the NaN decides. RELU, TANH, SOFTMAX and SUM keep it.
#
# ai-edge-litert 2.3.0 on x86-64, Python 3.11; output:
#   EXP of nan 5 1 2:          by default 0 148.4 2.7 7.4; built in nan 148.4 2.7 7.4
#   MAX_POOL_2D of nan 5 1 2:  by default -inf; built in 5
#   MAX_POOL_2D of 5 nan 1 2:  by default 5; built in 5
#   REDUCE_MAX of 5 nan 1 2:   by default 2; built in 2
#   REDUCE_MAX of 5 1 2 nan:   by default nan; built in nan
# Exit status 1 if EXP, MAX_POOL_2D or REDUCE_MAX answer NaN or the largest number in all rows.
# For odt: inputs that are not finite are refused, and training ends at such a loss with the name of the
# first value that is not finite, so that no file with NaN is written (docs/architecture.md).
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ai-edge-litert==2.3.0
cd "$folder"
venv/bin/python - 2>"$folder/log" <<'PYTHON'
import sys
from importlib.metadata import version

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

print(f"ai-edge-litert {version('ai-edge-litert')}")
BUILT_IN = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES


def tensor(name, shape, kind=schema.TensorType.FLOAT32, buffer=0):
    new = schema.TensorT()
    new.name, new.shape, new.type, new.buffer = name, shape, kind, buffer
    return new


def model(name, before, after, options=None, **values):
    """A file with one operator; REDUCE_MAX reduces axis 1."""
    code, node, graph, file = (
        make() for make in (schema.OperatorCodeT, schema.OperatorT, schema.SubGraphT, schema.ModelT)
    )
    code.builtinCode = code.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, name)
    code.version = 1
    graph.tensors = [tensor("x", before), tensor("y", after)]
    file.buffers = [schema.BufferT(), schema.BufferT()]
    node.inputs, node.outputs = [0], [1]
    if name == "REDUCE_MAX":
        file.buffers[1].data = np.array([1], np.int32).view(np.uint8)
        graph.tensors.append(tensor("axes", [1], schema.TensorType.INT32, 1))
        node.inputs = [0, 2]
    if options:
        node.builtinOptionsType = getattr(schema.BuiltinOptions, options)
        node.builtinOptions = getattr(schema, options + "T")()
        vars(node.builtinOptions).update(values)
    graph.operators, graph.inputs, graph.outputs = [node], [0], [1]
    file.version, file.operatorCodes, file.subgraphs = 3, [code], [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(file.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def answer(file, x, kernels):
    interpreter = Interpreter(model_content=file, experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, x.reshape(interpreter.get_input_details()[0]["shape"]))
    interpreter.invoke()
    return interpreter.get_tensor(1).ravel()


def text(values):
    return " ".join(f"{value:.1f}".removesuffix(".0") for value in values)


pool = {"options": "Pool2DOptions", "padding": schema.Padding.VALID, "strideW": 1, "strideH": 1}
pool |= {"filterWidth": 2, "filterHeight": 2}
FILES = {
    "EXP": model("EXP", [1, 4], [1, 4]),
    "MAX_POOL_2D": model("MAX_POOL_2D", [1, 2, 2, 1], [1, 1, 1, 1], **pool),
    "REDUCE_MAX": model("REDUCE_MAX", [1, 4], [1, 1], "ReducerOptions", keepDims=True),
}
nan, found = np.nan, []
for name, *values in (
    ("EXP", nan, 5, 1, 2),
    ("MAX_POOL_2D", nan, 5, 1, 2),
    ("MAX_POOL_2D", 5, nan, 1, 2),
    ("REDUCE_MAX", 5, nan, 1, 2),
    ("REDUCE_MAX", 5, 1, 2, nan),
):
    x = np.array(values, np.float32)
    default, built_in = (answer(FILES[name], x, k) for k in (OpResolverType.AUTO, BUILT_IN))
    said = f"by default {text(default)}; built in {text(built_in)}"
    print(f"{f'{name} of {text(values)}:':26} {said}")
    found.append(default[0])
if (found[0], found[1], found[3]) != (0, -np.inf, 2):
    sys.exit("changed: NaN does not become the numbers described")
PYTHON
