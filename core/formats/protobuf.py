"""The wire format of protocol buffers: reads messages, with limits, and encodes numbers.

A message is a sequence of fields, each a tag and a value. A format has a table of the fields of
each of its messages (core/formats/onnx/messages.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types
FIXED = {FIXED64: 8, FIXED32: 4}  # wire type → bytes of a value
NUMBERS = {"int": VARINT, "float": FIXED32, "double": FIXED64}  # kind of a field → wire type
MAX_VARINT = 10  # bytes
MAX_DEPTH = 32  # messages within messages
MAX_FIELDS = 2_000_000  # fields of a file plus numbers in its attributes
BLOCK = 1 << 16  # bytes of packed numbers that are decoded at once
SIGN = 1 << 63  # the highest of 64 bits
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
        kind: "int" for whole numbers of any type, "float", "double", "text" or "bytes"; for a
            message, its table.
        many: whether the field may occur several times. Numbers may then be packed: one field of
            bytes holds several.
    """

    name: str
    kind: "str | Mapping[int, Field]"
    many: bool = False

    @property
    def wire(self) -> int:
        """The wire type of a single value."""
        return NUMBERS.get(self.kind, BYTES) if isinstance(self.kind, str) else BYTES


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
            return value & (2 * SIGN - 1), k + 1
        shift += 7
    raise _endless(at)


def _endless(at: int) -> ProtobufError:
    return ProtobufError(
        f"a number must end within {MAX_VARINT} bytes and its message, but got one without an end "
        f"at byte {at}"
    )


def read_packed(data: memoryview, span: Span) -> Array:
    """Returns the signed numbers of a packed field (int64).

    Raises:
        ProtobufError: if one does not end within MAX_VARINT bytes, or before the field.
    """
    stored = np.asarray(data[span.offset : span.end])
    numbers = np.zeros(np.count_nonzero(stored < 128), np.int64)
    at = done = 0
    while at < stored.size:
        block = stored[at : at + BLOCK]
        ends = np.flatnonzero(block < 128)
        sizes = np.diff(ends, prepend=-1)  # bytes of each number
        starts = ends - sizes + 1
        if not ends.size or sizes.max() > MAX_VARINT:
            raise _endless(span.offset + at + int(starts[sizes.argmax()] if ends.size else 0))
        values = np.zeros(ends.size, np.uint64)
        for k in range(sizes.max()):
            longer = np.flatnonzero(sizes > k)
            bits = (block[starts[longer] + k] & 127).astype(np.uint64)
            values[longer] |= bits << np.uint64(7 * k)
        numbers[done : done + ends.size] = values.view(np.int64)
        done += ends.size
        at += int(ends[-1]) + 1
    return numbers


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
        self._items = 0

    def read(self, span: Span, table: Table, depth: int = 0) -> Message:
        """Returns field → value of the fields that a message has.

        A value is an int (signed, 64 bits), a str, a mapping for a message, or a Span: the place
        of bytes, of a float or double, or of packed numbers. A field of several values has a list
        of these.

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
            content = self._value(field, wire, value, depth)
            if field.many:
                message.setdefault(field.name, []).append(content)
            elif field.name in message and isinstance(content, Mapping):
                raise ProtobufError(f"a message must have one {field.name}, but got two")
            else:
                message[field.name] = content
        return message

    def numbers(self, values: Sequence[int | Span]) -> Array:
        """Returns the whole numbers of a field of several, single or packed (int64).

        Raises:
            ProtobufError: if packed bytes are no numbers.
        """
        parts = [np.zeros(0, np.int64)]
        for kind, group in groupby(values, type):
            if kind is int:
                parts.append(np.fromiter(group, np.int64))
            else:
                parts += [read_packed(self.data, v) for v in group if isinstance(v, Span)]
        return parts[1] if len(parts) == 2 else np.concatenate(parts)

    def count(self, items: int) -> None:
        """Counts fields, or numbers in attributes, that were read; refuses a file of too many."""
        self._items += items
        if self._items > MAX_FIELDS:
            raise ProtobufError(
                f"a file must have at most {MAX_FIELDS:,} fields and numbers in attributes, but "
                "got more"
            )

    def _value(self, field: Field, wire: int, value: int | Span, depth: int) -> Any:
        """Returns a value of a field by its kind; raises ProtobufError for another wire type."""
        packed = field.many and wire == BYTES
        if wire != field.wire and not packed:
            raise ProtobufError(f"{field.name} must have wire type {field.wire}, but got {wire}")
        if isinstance(value, int):
            return signed(value)
        if field.kind == "text":
            return str(self.data[value.offset : value.end], "utf-8", "replace")
        if not isinstance(field.kind, str):
            return self.read(value, field.kind, depth + 1)
        width = FIXED.get(field.wire, 1)
        if value.size % width:
            raise ProtobufError(
                f"{field.name} must have {width} bytes for each number, but got {value.size}"
            )
        return value


def signed(value: int) -> int:
    """Returns the signed number with the 64 bits of an unsigned one."""
    return value - 2 * SIGN if value >= SIGN else value
