"""Reads the wire format of protocol buffers, with limits; independent of any message.

A message is a sequence of fields, each a tag and a value. A format has a table of the fields of
each of its messages (core/formats/onnx/messages.py).
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from odt.dataclass import dataclass

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types
FIXED = {FIXED64: 8, FIXED32: 4}
MAX_VARINT = 10  # bytes
MAX_DEPTH = 32  # messages within messages
MAX_FIELDS = 2_000_000  # of a file, and numbers in packed fields
INT64 = 1 << 63
Message: TypeAlias = Mapping[str, Any]


class ProtobufError(ValueError):
    """Raised if bytes are no message; its text is the rule that they break, with values."""


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of a file: those from `offset` on, `size` of them."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message.

    Attributes:
        name: name in the schema.
        kind: "int" for whole numbers, "text", or "bytes" for values that are read as their place in
            the file: bytes, packed numbers, floats; for a message, its table.
        many: whether the field may occur several times.
    """

    name: str
    kind: "str | Mapping[int, Field]"
    many: bool = False


Table: TypeAlias = Mapping[int, Field]


def read_varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """Reads a number of 7 bits in each byte; returns it and the position after it.

    Raises:
        ProtobufError: if it does not end within MAX_VARINT bytes, or before `end`.
    """
    value = shift = 0
    for k in range(at, min(end, at + MAX_VARINT)):
        byte = data[k]
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (2 * INT64 - 1), k + 1
        shift += 7
    raise ProtobufError(f"a number must end within {MAX_VARINT} bytes, but got none at byte {at}")


def encode_varint(value: int) -> bytes:
    """Returns the bytes of a number, at least 0."""
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_fields(data: memoryview, span: Span) -> Iterator[tuple[int, int, int | Span]]:
    """Yields the fields of a message: number, wire type, and a number or the place of the value.

    Raises:
        ProtobufError: if the bytes are no message; fields before the fault have been yielded.
    """
    at, end = span.offset, span.end
    while at < end:
        start = at
        tag, at = read_varint(data, at, end)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise ProtobufError(f"a field must have a number above 0, but got 0 at byte {start}")
        if kind == VARINT:
            value, at = read_varint(data, at, end)
            yield number, kind, value
            continue
        if kind == BYTES:
            size, at = read_varint(data, at, end)
        elif kind in FIXED:
            size = FIXED[kind]
        else:
            raise ProtobufError(
                f"the wire type of a field must be 0, 1, 2 or 5, but got {kind} at byte {start}"
            )
        if size > end - at:
            raise ProtobufError(
                f"field {number} at byte {start} must end with its message, at byte {end}, but "
                f"got {size} bytes from byte {at} on. The file is damaged or incomplete."
            )
        yield number, kind, Span(at, size)
        at += size


class MessageReader:
    """Reads messages by tables of their fields; fields that are in no table are skipped.

    Args:
        data: all bytes of the file.
    """

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self._fields = 0

    def read(self, span: Span, table: Table, depth: int = 0) -> Message:
        """Returns field → value of the fields that a message has.

        A value is an int (signed, 64 bits), a str, a Span, or a mapping for a message; a list of
        these for a field of several values.

        Raises:
            ProtobufError: if the bytes are no such message.
        """
        if depth > MAX_DEPTH:
            raise ProtobufError(f"messages must be at most {MAX_DEPTH} deep, but got more")
        message: dict[str, Any] = {}
        for number, wire, value in read_fields(self.data, span):
            self.count(1)
            field = table.get(number)
            if field is None:
                continue
            if field.many and field.kind == "int" and isinstance(value, Span) and wire == BYTES:
                message.setdefault(field.name, []).extend(self.numbers(value))
                continue
            content = self._value(field, wire, value, depth)
            if field.many:
                message.setdefault(field.name, []).append(content)
            elif field.name in message and isinstance(content, Mapping):
                raise ProtobufError(f"a message must have one {field.name}, but got two")
            else:
                message[field.name] = content
        return message

    def numbers(self, span: Span) -> list[int]:
        """Returns the signed numbers of a packed field."""
        numbers: list[int] = []
        at = span.offset
        while at < span.end:
            value, at = read_varint(self.data, at, span.end)
            numbers.append(signed(value))
            self.count(1)
        return numbers

    def count(self, fields: int) -> None:
        """Counts fields that were read, and refuses a file of too many."""
        self._fields += fields
        if self._fields > MAX_FIELDS:
            raise ProtobufError(f"a file must have at most {MAX_FIELDS:,} fields, but got more")

    def _value(self, field: Field, wire: int, value: int | Span, depth: int) -> Any:
        """Returns a value of a field by its kind; raises ProtobufError for another wire type."""
        if field.kind == "int":
            if isinstance(value, int):
                return signed(value)
        elif isinstance(value, Span):
            if field.kind == "bytes":
                return value
            if wire == BYTES and field.kind == "text":
                return str(self.data[value.offset : value.end], "utf-8", "replace")
            if wire == BYTES and not isinstance(field.kind, str):
                return self.read(value, field.kind, depth + 1)
        raise ProtobufError(f"{field.name} must have the wire type of its kind, but got {wire}")


def signed(value: int) -> int:
    """Returns the signed number with the 64 bits of an unsigned one."""
    return value - 2 * INT64 if value >= INT64 else value
