#!/bin/sh
# reset_all_variables of LiteRT resets one kind of state, and keeps the other.
#
# A model keeps state in variable tensors (RNN, LSTM, SVDF) or in resource variables (VAR_HANDLE,
# READ_VARIABLE, ASSIGN_VARIABLE, with a CALL_ONCE that sets the initial value), as TensorFlow's
# converter writes them for streaming models. One would expect that `reset_all_variables` begins a new
# sequence for both. In LiteRT 2.3.0 it sets variable tensors to 0, and leaves resource variables as
# they are. `allocate_tensors` resets neither, and CALL_ONCE does not run again. The next recording is
# answered with the state of the last one, without an error. Only a new Interpreter starts anew.
#
# ai-edge-litert 2.3.0, Python 3.11; output of models that add up their inputs, each 1:
#   variable tensor, from 0:      1 2, reset_all_variables 1, allocate_tensors 2
#   resource variable, from 100:  101 102, reset_all_variables 103, allocate_tensors 104
# Exit status 1 if the resource variable is reset.
# For odt: a sequence always starts from the initial value in the file (core/lowering/streaming).
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


def variable_tensor():
    model = Model()
    x, y = (model.tensor((1, 1), TYPES.FLOAT32) for _ in range(2))
    one = np.ones((1, 1), np.float32)
    weights = [model.tensor((1, 1), TYPES.FLOAT32, one) for _ in range(2)]
    bias, state = model.tensor((1,), TYPES.FLOAT32, one[0] * 0), model.tensor((1, 1), TYPES.FLOAT32)
    model.graph.tensors[state].isVariable = True
    model.operator("RNN", [x, *weights, bias, state], [y], options="RNNOptions")
    return model.interpreter([x], [y])


def resource_variable():
    model = Model()
    x, read, y = (model.tensor((1, 1), TYPES.FLOAT32) for _ in range(3))
    handle = model.tensor((), TYPES.RESOURCE)
    named = {"options": "VarHandleOptions", "container": b"", "sharedName": b"state"}
    model.operator("CALL_ONCE", [], [], options="CallOnceOptions", initSubgraphIndex=1)
    model.operator("VAR_HANDLE", [], [handle], **named)
    model.operator("READ_VARIABLE", [handle], [read], options="ReadVariableOptions")
    model.operator("ADD", [read, x], [y], options="AddOptions")
    model.operator("ASSIGN_VARIABLE", [handle, y], [], options="AssignVariableOptions")
    model.add_graph()
    handle, start = (
        model.tensor((), TYPES.RESOURCE),
        model.tensor((1, 1), TYPES.FLOAT32, np.full((1, 1), 100, np.float32)),
    )
    model.operator("VAR_HANDLE", [], [handle], **named)
    model.operator("ASSIGN_VARIABLE", [handle, start], [], options="AssignVariableOptions")
    return model.interpreter([x], [y])


results = []
for name, interpreter in (
    ("variable tensor, from 0:", variable_tensor()),
    ("resource variable, from 100:", resource_variable()),
):
    interpreter.allocate_tensors()

    def step(interpreter=interpreter):
        return int(answer(interpreter, np.ones((1, 1), np.float32)).item())

    first, second = step(), step()
    interpreter.reset_all_variables()
    after_reset = step()
    interpreter.allocate_tensors()
    results.append((first, second, after_reset, step()))
    print(
        f"{name:29} {first} {second}, reset_all_variables {after_reset}, "
        f"allocate_tensors {results[-1][3]}"
    )
if results[0][2] != 1 or results[1][2:] != (103, 104):
    sys.exit("changed: variables are reset in another way")
PYTHON
