#!/bin/sh
# The scale that a file states for an int32 bias has no effect in LiteRT, even if it is ten times wrong.
#
# The bias of an int8 layer is a tensor with a scale of its own. One would expect that a runtime uses it,
# or refuses one that differs from the product of the scales of input and weights, in whose units it adds
# the integers. LiteRT 2.3.0 always uses the product. XNNPACK, the default, checks nothing. The built-in
# CONV_2D neither; the built-in FULLY_CONNECTED allows an error of 2 % of the scale of the output, so
# that a coarse output hides a bias scale that is three times too large. A tool that computes with the
# stated scale gets other numbers than LiteRT, and no message says so.
#
# ai-edge-litert 2.3.0, Python 3.11; output of a layer with 2 from its products and the bias 1000, whose
# scales make 0.01 the unit, so that 12 is right for the file in the first row alone:
#   scale 0.01, means 12:  CONV_2D 12, 12 built in; FULLY_CONNECTED 12, 12 built in
#   scale 0.03, means 32:  CONV_2D 12, 12 built in; FULLY_CONNECTED 12, 12 built in
#   scale 0.1, means 102:  CONV_2D 12, 12 built in; FULLY_CONNECTED 12, refused built in
# Exit status 1 if the stated scale has an effect.
# For odt: integers of a bias have the scale of the product (core/model/quantization_rules.py;
# docs/quantized-files.md, "Refused files").
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


def layer(name, scale, built_in):
    """Output of a layer on (10, 10) · 0.1 with weights (10, 10) · 0.1 and the bias 1000 · scale."""
    model, ones = Model(), (1,) * (3 if name == "CONV_2D" else 1)
    ten = np.full((*ones, 2), 10, np.int8)
    x, w = model.tensor(ten.shape, TYPES.INT8, scale=0.1), model.tensor(ten.shape, TYPES.INT8, ten, 0.1)
    bias = model.tensor((1,), TYPES.INT32, np.array([1000], np.int32), scale)
    y = model.tensor((*ones, 1), TYPES.INT8, scale=1.0)
    if name == "CONV_2D":
        strides = dict.fromkeys(("strideH", "strideW", "dilationHFactor", "dilationWFactor"), 1)
        model.operator(name, [x, w, bias], [y], 3, options="Conv2DOptions", **strides)
    else:
        model.operator(name, [x, w, bias], [y], 4, options="FullyConnectedOptions")
    interpreter = model.interpreter([x], [y], built_in)
    try:
        interpreter.allocate_tensors()
    except RuntimeError:
        return "refused"
    return int(answer(interpreter, ten).item())


rows = []
for scale in (0.01, 0.03, 0.1):
    pairs = {
        name: [layer(name, scale, built_in) for built_in in (False, True)]
        for name in ("CONV_2D", "FULLY_CONNECTED")
    }
    rows += pairs.values()
    shown = "; ".join(f"{name} {a}, {b} built in" for name, (a, b) in pairs.items())
    print(f"{f'scale {scale}, means {2 + 1000 * scale:.0f}:':22} {shown}")
if rows != [[12, 12]] * 5 + [[12, "refused"]]:
    sys.exit("changed: the scale of a bias has an effect")
PYTHON
