"""Writes messages of ONNX, and takes models apart to write them with other inputs and nodes.

What stays of a model is copied byte for byte. The numbers of fields are those of onnx.proto.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from odt.core.formats.onnx.tensors import TYPES
from odt.core.formats.protobuf import (
    BYTES,
    FIXED32,
    VARINT,
    ProtobufError,
    Span,
    encode_varint,
    read_fields,
    read_varint,
)
from odt.dataclass import dataclass
from odt.errors import ModelError
from odt.kernels.rows.opdef import Array

Value: TypeAlias = int | float | str | bytes | memoryview
Axes: TypeAlias = Sequence[int | str]  # of a declared shape; an open axis has a name
MODEL_GRAPH, MODEL_OPSET, MODEL_METADATA = 7, 8, 14
NODE, INITIALIZER, INPUT, OUTPUT, VALUE = 1, 5, 11, 12, 13  # fields of a graph
NAMES = {INITIALIZER: 8, INPUT: 1, OUTPUT: 1, VALUE: 1}  # field of a graph → name of its entries
FLOAT, INT, STRING, INTS = 1, 2, 3, 7  # AttributeProto.type


def fields(entries: Iterable[tuple[int, Value]]) -> Iterator[bytes | memoryview]:
    """Yields the bytes of fields: whole numbers, floats of 32 bits, text, or bytes."""
    for number, value in entries:
        if isinstance(value, float):
            yield encode_varint(number << 3 | FIXED32) + struct.pack("<f", value)
        elif isinstance(value, int):
            # A number below 0 is stored as one of 64 bits without sign.
            yield encode_varint(number << 3 | VARINT) + encode_varint(value % (1 << 64))
        else:
            data = value.encode() if isinstance(value, str) else value
            yield encode_varint(number << 3 | BYTES) + encode_varint(len(data))
            yield data


def message(*entries: tuple[int, Value]) -> bytes:
    """Returns a message of fields: number of the field, and its value."""
    return b"".join(fields(entries))


def tensor(name: str, values: Array) -> bytes:
    """Returns a TensorProto."""
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return message(
        *((1, n) for n in values.shape),
        (2, type_code(values.dtype)),
        (8, name),
        (9, little.reshape(-1).view(np.uint8).data),
    )


def type_code(dtype: np.dtype[Any]) -> int:
    """Returns the number of a dtype in TensorProto.DataType."""
    return TYPES.index(dtype.name) + 1


def value_info(name: str, dtype: np.dtype[Any], shape: Axes) -> bytes:
    """Returns a ValueInfoProto of a tensor."""
    dims = [(1, message((2 if isinstance(n, str) else 1, n))) for n in shape]
    kind = message((1, type_code(dtype)), (2, message(*dims)))
    return message((1, name), (2, message((1, kind))))


def float_info(name: str) -> bytes:
    """Returns a ValueInfoProto of a float tensor whose shape is not known."""
    return message((1, name), (2, message((1, message((1, type_code(np.dtype(np.float32))))))))


def sequence_info(name: str) -> bytes:
    """Returns a ValueInfoProto of a sequence of float tensors."""
    element = message((1, message((1, type_code(np.dtype(np.float32))))))
    return message((1, name), (2, message((4, message((1, element))))))


def node(
    kind: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    name: str = "",
    domain: str = "",
    attributes: Mapping[str, float | str | Sequence[int]] | None = None,
) -> bytes:
    """Returns a NodeProto."""
    return message(
        *((1, i) for i in inputs),
        *((2, o) for o in outputs),
        (3, name),
        (4, kind),
        *((5, _attribute(n, v)) for n, v in (attributes or {}).items()),
        *([(7, domain)] if domain else []),
    )


def _attribute(name: str, value: float | str | Sequence[int]) -> bytes:
    if isinstance(value, float):
        return message((1, name), (2, value), (20, FLOAT))
    if isinstance(value, int):
        return message((1, name), (3, value), (20, INT))
    if isinstance(value, str):
        return message((1, name), (4, value), (20, STRING))
    return message((1, name), *((8, n) for n in value), (20, INTS))


@dataclass(frozen=True, slots=True)
class Parts:
    """A model taken apart, to be changed and put together again.

    Attributes:
        model: fields of the model besides the graph, encoded.
        nodes: NodeProto messages.
        initializers, inputs, outputs, values: name → message; values are inside the graph.
        rest: other fields of the graph, encoded.
    """

    model: list[bytes | memoryview]
    nodes: list[bytes | memoryview]
    initializers: dict[str, bytes | memoryview]
    inputs: dict[str, bytes | memoryview]
    outputs: dict[str, bytes | memoryview]
    values: dict[str, bytes | memoryview]
    rest: list[bytes | memoryview]

    @classmethod
    def from_bytes(cls, data: memoryview) -> "Parts":
        """Takes a model apart, which has been parsed before.

        Raises:
            ProtobufError: if the bytes are no messages.
        """
        parts = cls([], [], {}, {}, {}, {}, [])
        for number, encoded, span in _encoded(data, Span(0, len(data))):
            if number == MODEL_GRAPH and span is not None:
                parts._take_graph(data, span)
            else:
                parts.model.append(encoded)
        return parts

    def _take_graph(self, data: memoryview, graph: Span) -> None:
        """Takes the graph of a model apart."""
        named = {
            INITIALIZER: self.initializers,
            INPUT: self.inputs,
            OUTPUT: self.outputs,
            VALUE: self.values,
        }
        for number, encoded, span in _encoded(data, graph):
            if span is None or number not in (NODE, *named):
                self.rest.append(encoded)
                continue
            content = data[span.offset : span.end]
            if number == NODE:
                self.nodes.append(content)
                continue
            try:
                named[number][_name(data, span, NAMES[number])] = content
            except ProtobufError:  # a value that no reader looks at
                self.rest.append(encoded)

    def chunks(self) -> list[bytes | memoryview]:
        """Returns the bytes of the model, in parts.

        Raises:
            ModelError: if the graph has 2 GiB or more, which the format cannot store.
        """
        graph = [
            *fields((NODE, n) for n in self.nodes),
            *self.rest,
            *fields((INITIALIZER, t) for t in self.initializers.values()),
            *fields((INPUT, v) for v in self.inputs.values()),
            *fields((OUTPUT, v) for v in self.outputs.values()),
            *fields((VALUE, v) for v in self.values.values()),
        ]
        size = sum(map(len, graph))
        if size >= 1 << 31:
            raise ModelError(f"an ONNX model must have less than 2 GiB, but got {size} bytes.")
        front = encode_varint(MODEL_GRAPH << 3 | BYTES) + encode_varint(size)
        return [*self.model, front, *graph]


def _encoded(data: memoryview, span: Span) -> Iterator[tuple[int, bytes | memoryview, Span | None]]:
    """Yields the fields of a message: number, all its bytes, and the place of a message."""
    start = span.offset
    for number, wire, value in read_fields(data, span):
        if isinstance(value, Span):
            yield number, data[start : value.end], value if wire == BYTES else None
            start = value.end
        else:
            _, end = read_varint(data, start, span.end)  # the tag
            _, end = read_varint(data, end, span.end)
            yield number, data[start:end], None
            start = end


def _name(data: memoryview, span: Span, field: int) -> str:
    """Returns the text in a field of a message; empty without it."""
    for number, _, value in read_fields(data, span):
        if number == field and isinstance(value, Span):
            return str(data[value.offset : value.end], "utf-8", "replace")
    return ""
