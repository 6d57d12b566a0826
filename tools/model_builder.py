"""Builds small Circle and TFLite models, for make_models.py and for tests.

The tables are packed by circle-schema, whose classes serve both formats as long as a model stays
with the operators of TFLite.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from circle_schema.v0_10 import circle as schema

FORMATS = {"circle": (b"CIR0", 0), "tflite": (b"TFL3", 3)}  # identifier, version
# Option tables that are not called as their operator.
OPTIONS = {
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "L2_POOL_2D": "Pool2DOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "MINIMUM": "MaximumMinimumOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions",
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"), "ReducerOptions"),
}


class _Buffer(schema.Buffer.BufferT):  # type: ignore[misc]  # circle-schema has no types
    """A buffer whose data begins on a multiple of 16, as the schema demands."""

    def Pack(self, builder: Any) -> Any:
        if self.data is None:
            return super().Pack(builder)
        builder.StartVector(1, len(self.data), 16)
        builder.head -= len(self.data)
        builder.Bytes[builder.head : builder.head + len(self.data)] = self.data.tobytes()
        data = builder.EndVector()
        schema.Buffer.BufferStart(builder)
        schema.Buffer.BufferAddData(builder, data)
        return schema.Buffer.BufferEnd(builder)


class ModelBuilder:
    """A model that grows: tensors and operators by index, in the order they run.

    Args:
        file_format: circle or tflite.
        seed: of the weights.
    """

    def __init__(self, file_format: str = "circle", seed: int = 0) -> None:
        self.identifier, version = FORMATS[file_format]
        self.rng = np.random.default_rng(seed)
        self.model = schema.Model.ModelT()
        self.model.version = version
        self.model.description = "made by odt"
        self.model.operatorCodes, self.model.buffers = [], [_Buffer()]
        self.graph = schema.SubGraph.SubGraphT()
        self.graph.name = "main"
        self.graph.tensors, self.graph.operators = [], []
        self.graph.inputs, self.graph.outputs = [], []
        self.model.subgraphs = [self.graph]

    def add_tensor(
        self,
        shape: Sequence[int],
        dtype: str = "float32",
        name: str = "",
        buffer: int = 0,
        signature: Sequence[int] | None = None,
    ) -> int:
        """An activation, or what else names a buffer."""
        tensor = schema.Tensor.TensorT()
        tensor.shape = [int(n) for n in shape]
        tensor.shapeSignature = None if signature is None else list(signature)
        tensor.type = getattr(schema.TensorType.TensorType, np.dtype(dtype).name.upper())
        tensor.name = name or f"tensor_{len(self.graph.tensors)}"
        tensor.buffer = buffer
        tensor.hasRank = True
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def add_input(self, shape: Sequence[int], dtype: str = "float32", **more: Any) -> int:
        """A model input; the first entry of the shape is the batch."""
        i = self.add_tensor(shape, dtype, **more)
        self.graph.inputs.append(i)
        return i

    def add_state(self, shape: Sequence[int]) -> int:
        """A variable: zero at first, and what it was at the end of the run before."""
        i = self.add_tensor(shape)
        self.graph.tensors[i].isVariable = True
        return i

    def add_buffer(self, data: bytes) -> int:
        """Bytes that tensors or metadata can name."""
        buffer = _Buffer()
        buffer.data = np.frombuffer(data, np.uint8)
        self.model.buffers.append(buffer)
        return len(self.model.buffers) - 1

    def add_constant(self, values: Any, name: str = "") -> int:
        """A constant; Python numbers become float32 or int32."""
        a = np.asarray(values)
        if a.dtype in (np.float64, np.int64) and not isinstance(values, np.ndarray):
            a = a.astype(np.float32 if a.dtype == np.float64 else np.int32)
        return self.add_tensor(a.shape, a.dtype.name, name, self.add_buffer(a.tobytes()))

    def add_weight(self, shape: Sequence[int], fan_in: int, name: str = "") -> int:
        """A float32 constant drawn as He et al. do for RELU: variance 2 / fan_in."""
        values = self.rng.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32)
        return self.add_constant(values, name)

    def add_operator(
        self,
        op: str,
        inputs: Sequence[int],
        *shapes: Sequence[int],
        dtype: str = "float32",
        **options: Any,
    ) -> int:
        """An operator; gives its first output, and the others follow.

        Args:
            op: as in the schema, or CUSTOM:name.
            inputs: tensors; -1 for an optional one left out.
            shapes: of the outputs.
            options: fields of its option table, in snake case.
        """
        operator = schema.Operator.OperatorT()
        operator.opcodeIndex = self._code(op)
        operator.inputs = list(inputs)
        operator.outputs = [self.add_tensor(shape, dtype) for shape in shapes]
        name = self._options_name(op)
        if name:
            operator.builtinOptionsType = getattr(schema.BuiltinOptions.BuiltinOptions, name)
            operator.builtinOptions = getattr(getattr(schema, name), f"{name}T")()
            for key, value in options.items():
                first, *others = key.split("_")
                field = first + "".join(map(str.capitalize, others))
                assert hasattr(operator.builtinOptions, field), f"{name} has no {key}"
                setattr(operator.builtinOptions, field, value)
        self.graph.operators.append(operator)
        return int(operator.outputs[0])

    def _options_name(self, op: str) -> str | None:
        wanted = OPTIONS.get(op, op.replace("_", "") + "Options").lower()
        names = vars(schema.BuiltinOptions.BuiltinOptions)
        return next((n for n in names if n.lower() == wanted), None)

    def _code(self, op: str) -> int:
        kind, _, custom = op.partition(":")
        code = schema.OperatorCode.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator.BuiltinOperator, kind)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.customCode = custom or None
        for i, known in enumerate(self.model.operatorCodes):
            if vars(known) == vars(code):
                return i
        self.model.operatorCodes.append(code)
        return len(self.model.operatorCodes) - 1

    def add_dense(self, x: int, units: int, **options: Any) -> int:
        """FULLY_CONNECTED with weights and bias."""
        width = self.graph.tensors[x].shape[-1]
        name = f"dense_{len(self.graph.operators)}"
        w = self.add_weight((units, width), width, f"{name}/w")
        b = self.add_constant(np.zeros(units, np.float32), f"{name}/b")
        return self.add_operator("FULLY_CONNECTED", (x, w, b), (1, units), **options)

    def add_metadata(self, name: str, data: bytes) -> None:
        entry = schema.Metadata.MetadataT()
        entry.name, entry.buffer = name, self.add_buffer(data)
        self.model.metadata = [*(self.model.metadata or []), entry]

    def add_signature(
        self, key: str, inputs: Mapping[str, int], outputs: Mapping[str, int]
    ) -> None:
        """A named entry: argument names → tensors."""
        signature = schema.SignatureDef.SignatureDefT()
        signature.signatureKey = key
        signature.inputs, signature.outputs = _tensor_map(inputs), _tensor_map(outputs)
        self.model.signatureDefs = [*(self.model.signatureDefs or []), signature]

    def quantize(
        self, tensor: int, scale: Sequence[float], zero_point: Sequence[int], axis: int = 0
    ) -> None:
        """Gives a tensor scales."""
        table = schema.QuantizationParameters.QuantizationParametersT()
        table.scale, table.zeroPoint = list(scale), list(zero_point)
        table.quantizedDimension = axis
        self.graph.tensors[tensor].quantization = table

    def build(self, *outputs: int) -> bytes:
        """The bytes of the file."""
        self.graph.outputs = list(outputs)
        return pack(self.model, self.identifier)

    def write(self, path: str | Path, *outputs: int) -> None:
        Path(path).write_bytes(self.build(*outputs))


def pack(model: Any, identifier: bytes) -> bytes:
    """The bytes of a model's objects."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), identifier)
    return bytes(builder.Output())


def unpack(data: bytes) -> Any:
    """A model's objects, whose lists can be changed."""
    model = schema.Model.ModelT.InitFromObj(schema.Model.Model.GetRootAs(data, 0))
    for k, buffer in enumerate(model.buffers):
        model.buffers[k] = _Buffer()
        if buffer.data is not None:
            model.buffers[k].data = np.array(buffer.data, np.uint8)
    return model


def _tensor_map(names: Mapping[str, int]) -> list[Any]:
    entries = []
    for name, tensor in names.items():
        entry = schema.TensorMap.TensorMapT()
        entry.name, entry.tensorIndex = name, tensor
        entries.append(entry)
    return entries
