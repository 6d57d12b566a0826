#!/bin/sh
# Some int8 operators of LiteRT convert between the scales of input and output, others only copy.
#
# Each quantized tensor of a file has its own scale. One would expect that an operator whose output has
# another scale than its input keeps the numbers that the integers represent, or that LiteRT refuses the
# file. LiteRT 2.3.0 does one of three things, and the schema does not say which: RELU, MEAN and SUM
# convert; RESHAPE and AVERAGE_POOL_2D copy the integers, so that all numbers change by the ratio of the
# scales; CONCATENATION refuses. Others depend on the kernels: TRANSPOSE, PAD and MAX_POOL_2D copy as well
# with built-in kernels, and make XNNPACK, the default, refuse the model as a whole instead of leaving the
# node to them; REDUCE_MAX copies in XNNPACK, and is refused by the built-in kernel.
#
# ai-edge-litert 2.3.0, Python 3.11; output for the numbers 10 20 30 40 with scale 1, where the scale of
# the output is 2 ("built in" where it differs):
#   RELU             10 20 30 40
#   MEAN             10 20 30 40
#   SUM              10 20 30 40
#   RESHAPE          20 40 60 80
#   AVERAGE_POOL_2D  20 40 60 80
#   TRANSPOSE        refused; built in 20 40 60 80
#   PAD              refused; built in 20 40 60 80
#   MAX_POOL_2D      refused; built in 20 40 60 80
#   CONCATENATION    refused
#   REDUCE_MAX       20 40 60 80; built in refused
# Exit status 1 if an operator does something else.
# For odt: such operators are named by `odt check` and before training; docs/quantized-files.md,
# "Differences from LiteRT".
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
KINDS, TYPES, OPTIONS = schema.BuiltinOperator, schema.TensorType, schema.BuiltinOptions


class Model:
    """A TFLite model that is built tensor by tensor, then operator by operator."""

    def __init__(self):
        self.file, self.graph = schema.ModelT(), None
        self.file.version, self.file.buffers = 3, [schema.BufferT()]
        self.file.subgraphs, self.file.operatorCodes = [], []
        self.add_graph()

    def add_graph(self):
        self.graph = new = schema.SubGraphT()
        new.tensors, new.operators, new.inputs, new.outputs = [], [], [], []
        self.file.subgraphs.append(new)

    def tensor(self, shape, kind, values=None, scale=None):
        new = schema.TensorT()
        new.shape, new.type, new.buffer = list(shape), kind, 0
        new.name = f"tensor {len(self.graph.tensors)}".encode()
        if scale is not None:
            new.quantization = schema.QuantizationParametersT()
            new.quantization.scale = np.array([scale], np.float32)
            new.quantization.zeroPoint = np.zeros(1, np.int64)
        if values is not None:
            data = schema.BufferT()
            data.data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
            self.file.buffers.append(data)
            new.buffer = len(self.file.buffers) - 1
        self.graph.tensors.append(new)
        return len(self.graph.tensors) - 1

    def operator(self, name, inputs, outputs, version=1, **values):
        code, node = schema.OperatorCodeT(), schema.OperatorT()
        code.builtinCode = getattr(KINDS, name)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), version
        self.file.operatorCodes.append(code)
        node.inputs, node.outputs = inputs, outputs
        node.opcodeIndex = len(self.file.operatorCodes) - 1
        options = values.pop("options", None)
        if options:
            node.builtinOptionsType = getattr(OPTIONS, options)
            node.builtinOptions = getattr(schema, options + "T")()
            for key, value in values.items():
                setattr(node.builtinOptions, key, value)
        self.graph.operators.append(node)

    def interpreter(self, inputs, outputs, built_in=False):
        first = self.file.subgraphs[0]
        first.inputs, first.outputs = inputs, outputs
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.file.Pack(builder), b"TFL3")
        kind = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES if built_in else OpResolverType.AUTO
        return Interpreter(
            model_content=bytes(builder.Output()), experimental_op_resolver_type=kind
        )


def answer(interpreter, *arrays):
    for details, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(details["index"], array)
    interpreter.invoke()
    (output,) = interpreter.get_output_details()
    return interpreter.get_tensor(output["index"])


def moved(name, built_in):
    """Numbers of the output (scale 2) of an operator that leaves the four numbers of its input."""
    pool, reduce = name.endswith("POOL_2D"), name in ("MEAN", "SUM", "REDUCE_MAX")
    shape = (1, 2, 2, 1) if pool else (1, 4)
    model = Model()
    x = model.tensor(shape, TYPES.INT8, scale=1.0)
    y = model.tensor((4, 1) if name == "TRANSPOSE" else shape, TYPES.INT8, scale=2.0)
    others, values = {
        "RESHAPE": ([1, 4], {"options": "ReshapeOptions", "newShape": [1, 4]}),
        "TRANSPOSE": ([1, 0], {"options": "TransposeOptions"}),
        "PAD": ([[0, 0], [0, 0]], {"options": "PadOptions"}),
        "CONCATENATION": (None, {"options": "ConcatenationOptions", "axis": 1}),
        "RELU": (None, {}),
    }.get(name, ([0] if reduce else None, {"options": "ReducerOptions", "keepDims": True}))
    if pool:
        ones = dict.fromkeys(("strideW", "strideH", "filterWidth", "filterHeight"), 1)
        values = {"options": "Pool2DOptions", "padding": schema.Padding.VALID, **ones}
    inputs = [x]
    if others is not None:
        constant = np.array(others, np.int32)
        inputs.append(model.tensor(constant.shape, TYPES.INT32, constant))
    model.operator(name, inputs, [y], 1 if name == "RESHAPE" else 2, **values)
    interpreter = model.interpreter([x], [y], built_in)
    try:
        interpreter.allocate_tensors()
        integers = answer(interpreter, np.array([10, 20, 30, 40], np.int8).reshape(shape))
    except RuntimeError:
        return "refused"
    return " ".join(str(2 * v) for v in integers.ravel().tolist())


copies, refuses, keeps = "20 40 60 80", "refused", "10 20 30 40"
EXPECTED = {
    **dict.fromkeys(("RELU", "MEAN", "SUM"), (keeps, keeps)),
    **dict.fromkeys(("RESHAPE", "AVERAGE_POOL_2D"), (copies, copies)),
    **dict.fromkeys(("TRANSPOSE", "PAD", "MAX_POOL_2D"), (refuses, copies)),
    "CONCATENATION": (refuses, refuses),
    "REDUCE_MAX": (copies, refuses),
}
changed = []
for name, expected in EXPECTED.items():
    default, built_in = (moved(name, kind) for kind in (False, True))
    print(f"{name:16} {default}" + (f"; built in {built_in}" if built_in != default else ""))
    if (default, built_in) != expected:
        changed.append(name)
if changed:
    sys.exit(f"changed: {', '.join(changed)}")
PYTHON
