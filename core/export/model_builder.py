"""Builds Circle and TFLite models from tensors and operators."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from odt.core.formats.flatbuffer.data_at_end import with_data_at_end
from odt.core.formats.flatbuffer.operator_options import options_table
from odt.core.formats.flatbuffer.operator_versions import raise_versions
from odt.core.formats.flatbuffer.schema_tables import TABLES_OF, code_of, fields_of, pack
from odt.kernels.rows.opdef import Array
from odt.schemas.circle import ENUMERATIONS

LARGE = 4096  # bytes of a buffer whose data `chunks` does not copy
FORMATS = {"circle": (b"CIR0", 0), "tflite": (b"TFL3", 3)}  # identifier, version


class Entry(SimpleNamespace):
    """A table of the schema, with its fields as attributes; None for absent fields."""

    def __setattr__(self, name: str, value: Any) -> None:
        assert hasattr(self, name), f"the table has no {name}"
        super().__setattr__(name, value)


def table(name: str, /, **values: Any) -> Entry:
    """Makes a table with some values."""
    schemas = (schema for schema in FORMATS if name in TABLES_OF[schema])
    fields = {field.name: None for schema in schemas for field in fields_of(name, schema)}
    assert values.keys() <= fields.keys(), f"{name} has no {values.keys() - fields.keys()}"
    return Entry(**{**fields, **values})


class ModelBuilder:
    """Builds a model: tensors and operators by index, in the order in which they run.

    Args:
        file_format: circle or tflite.
        seed: random seed of the weights.
    """

    def __init__(self, file_format: str = "circle", seed: int = 0) -> None:
        self.file_format = file_format
        self.identifier, version = FORMATS[file_format]
        self.rng = np.random.default_rng(seed)
        self.graph = table("SubGraph", name="main", tensors=[], operators=[], inputs=[], outputs=[])
        self.model = table(
            "Model",
            version=version,
            description="made by odt",
            operator_codes=[],
            buffers=[table("Buffer")],
            subgraphs=[self.graph],
        )

    def add_tensor(
        self,
        shape: Sequence[int],
        dtype: str = "float32",
        name: str = "",
        buffer: int = 0,
        signature: Sequence[int] | None = None,
    ) -> int:
        """Adds a tensor: an activation, or a tensor with a buffer."""
        tensor = table(
            "Tensor",
            shape=[int(n) for n in shape],
            shape_signature=None if signature is None else list(signature),
            type=code_of("TensorType", np.dtype(dtype).name.upper()),
            name=name or f"tensor_{len(self.graph.tensors)}",
            buffer=buffer,
            has_rank=True,
        )
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def add_input(self, shape: Sequence[int], dtype: str = "float32", **fields: Any) -> int:
        """Adds a model input; the first entry of the shape is the batch."""
        i = self.add_tensor(shape, dtype, **fields)
        self.graph.inputs.append(i)
        return i

    def add_state(self, shape: Sequence[int]) -> int:
        """Adds a variable, which is initially zero and keeps its value between runs."""
        i = self.add_tensor(shape)
        self.graph.tensors[i].is_variable = True
        return i

    def add_buffer(self, data: bytes) -> int:
        """Adds a buffer for tensors or metadata."""
        self.model.buffers.append(table("Buffer", data=np.frombuffer(data, np.uint8)))
        return len(self.model.buffers) - 1

    def add_constant(self, values: Any, name: str = "") -> int:
        """Adds a constant; Python numbers become float32 or int32."""
        a = np.asarray(values)
        if a.dtype in (np.float64, np.int64) and not isinstance(values, np.ndarray):
            a = a.astype(np.float32 if a.dtype == np.float64 else np.int32)
        return self.add_tensor(a.shape, a.dtype.name, name, self.add_buffer(a.tobytes()))

    def add_stored(self, shape: Sequence[int], kind: str, name: str, data: Array) -> int:
        """Adds a constant of a type of the schema, which NumPy may lack, with its bytes."""
        self.model.buffers.append(table("Buffer", data=data))
        i = self.add_tensor(shape, name=name, buffer=len(self.model.buffers) - 1)
        self.graph.tensors[i].type = code_of("TensorType", kind)
        return i

    def add_weight(self, shape: Sequence[int], fan_in: int, name: str = "") -> int:
        """Adds a float32 constant, drawn as in He et al. for RELU: variance 2 / fan_in."""
        values = self.rng.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32)
        return self.add_constant(values, name)

    def add_operator(
        self,
        op: str,
        inputs: Sequence[int],
        *shapes: Sequence[int],
        dtype: str = "float32",
        outputs: Sequence[int] | None = None,
        **options: Any,
    ) -> int:
        """Adds an operator; returns the index of its first output, which the others follow, or -1.

        Args:
            op: name in the schema, or CUSTOM:name.
            inputs: tensor indices; -1 for an optional input that is left out.
            shapes: shapes of the outputs, which are added.
            dtype: their type.
            outputs: the outputs, if they are there already.
            options: fields of its option table, in snake case.
        """
        if outputs is None:
            outputs = [self.add_tensor(shape, dtype) for shape in shapes]
        operator = table(
            "Operator", opcode_index=self._code(op), inputs=list(inputs), outputs=list(outputs)
        )
        name = options_table(op)
        if name is not None and name in ENUMERATIONS["BuiltinOptions"].values():
            operator.builtin_options_type = code_of("BuiltinOptions", name)
            operator.builtin_options = table(name, **options)
        self.graph.operators.append(operator)
        return outputs[0] if outputs else -1

    def _code(self, op: str) -> int:
        """Returns the index of an operator code; adds it if it is new."""
        kind, _, custom = op.partition(":")
        number = code_of("BuiltinOperator", kind)
        code = table(
            "OperatorCode",
            builtin_code=number,
            deprecated_builtin_code=min(number, 127),
            custom_code=custom or None,
        )
        if code not in self.model.operator_codes:
            self.model.operator_codes.append(code)
        return int(self.model.operator_codes.index(code))

    def add_dense(self, x: int, units: int, **options: Any) -> int:
        """Adds FULLY_CONNECTED with weights and bias."""
        width = self.graph.tensors[x].shape[-1]
        name = f"dense_{len(self.graph.operators)}"
        w = self.add_weight((units, width), width, f"{name}/w")
        b = self.add_constant(np.zeros(units, np.float32), f"{name}/b")
        return self.add_operator("FULLY_CONNECTED", (x, w, b), (1, units), **options)

    def add_metadata(self, name: str, data: bytes) -> None:
        """Adds a metadata entry and its buffer."""
        entry = table("Metadata", name=name, buffer=self.add_buffer(data))
        self.model.metadata = [*(self.model.metadata or []), entry]

    def add_signature(
        self, key: str, inputs: Mapping[str, int], outputs: Mapping[str, int]
    ) -> None:
        """Adds a signature: argument names → tensors."""
        signature = table(
            "SignatureDef",
            signature_key=key,
            inputs=_tensor_map(inputs),
            outputs=_tensor_map(outputs),
        )
        self.model.signature_defs = [*(self.model.signature_defs or []), signature]

    def quantize(
        self, tensor: int, scale: Sequence[float], zero_point: Sequence[int], axis: int = 0
    ) -> None:
        """Sets the quantization of a tensor."""
        self.graph.tensors[tensor].quantization = table(
            "QuantizationParameters",
            scale=list(scale),
            zero_point=list(zero_point),
            quantized_dimension=axis,
        )

    def build(self, *outputs: int) -> bytes:
        """Returns the bytes of the file."""
        import flatbuffers

        self.graph.outputs = list(outputs)
        tables = _plain(self.model)
        raise_versions(tables)
        builder = flatbuffers.Builder(1024)
        builder.Finish(pack(builder, "Model", tables, self.file_format), self.identifier)
        return bytes(builder.Output())

    def chunks(self, *outputs: int) -> Iterator[bytes | memoryview]:
        """Returns the file in parts; data of large buffers comes last, and is not copied."""
        buffers = {k: b.data for k, b in enumerate(self.model.buffers) if b.data is not None}
        large = {k: data for k, data in buffers.items() if data.nbytes >= LARGE}
        for k in large:
            self.model.buffers[k].data = np.empty(0, np.uint8)
        return with_data_at_end(self.build(*outputs), large)

    def write(self, path: str | Path, *outputs: int) -> None:
        """Writes the file."""
        Path(path).write_bytes(self.build(*outputs))


def _tensor_map(names: Mapping[str, int]) -> list[Entry]:
    return [table("TensorMap", name=name, tensor_index=i) for name, i in names.items()]


def _plain(value: Any) -> Any:
    """Converts tables to dictionaries."""
    if isinstance(value, Entry):
        return {name: _plain(v) for name, v in vars(value).items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return value
