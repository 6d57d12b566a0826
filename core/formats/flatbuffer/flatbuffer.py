"""Reads flatbuffer tables from untrusted bytes.

Python's flatbuffers package follows any offset, counts a negative one from the end of the file, and
returns 0 for an absent vector. Here every offset is checked against the file's size before it is
followed. Fields are identified by their slot, their position in the schema's table.
"""

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from odt.errors import ModelError, escaped
from odt.kernels.rows.opdef import Array

# Limits the time that hostile bytes can cost: tables and vectors may share bytes, so that a file
# holds more entries than fit into its size. Real models need up to 1.5 for each byte.
MIN_WORK, WORK_OF_BYTE = 2_000_000, 3
TABLE_WORK = 24  # of one table; one number in a vector counts 1
MAX_TEXT = 2**16  # bytes of a name
NUMBERS = {code: struct.Struct(f"<{code}") for code in "?bBhHiIqQfd"}
UINT32 = NUMBERS["I"]
VTABLE = struct.Struct("<HH")  # its bytes, and those of its table
DAMAGED = "The file is damaged or truncated."
CIRCLE, TFLITE = "circle", "tflite"
FORMATS = {b"TFL3": TFLITE, b"CIR0": CIRCLE}  # bytes 4 to 7 of a model → its format and schema
IDENTIFIERS = {name: identifier for identifier, name in FORMATS.items()}


class FlatBuffer:
    """The bytes of a flatbuffer file, with a limit on the work of reading them.

    Attributes:
        name: the file's name in messages.
        data: the bytes, read-only.
        schema: tflite for TFLite models, circle for other files.
    """

    def __init__(self, name: str, data: memoryview) -> None:
        self.name = name
        self.data = data
        self.schema = FORMATS.get(bytes(data[4:8]), CIRCLE)
        self.size = len(data)
        self.work = max(MIN_WORK, WORK_OF_BYTE * self.size)

    def spend(self, where: str, work: int) -> None:
        """Counts work; raises ModelError if there is more than a file of this size can need."""
        self.work -= work
        if self.work < 0:
            most = max(MIN_WORK, WORK_OF_BYTE * self.size)
            raise self.error(
                where,
                f"a file of {self.size} bytes must hold at most {most} entries, but got more up to "
                "here",
            )

    def error(self, where: str, text: str, cause: str = DAMAGED) -> ModelError:
        """Returns an error with the file's name, a place, a rule with values, and the cause."""
        place = f"{self.name}: {where}" if where else self.name
        return ModelError(f"{place}: {text}. {cause}")

    def root(self) -> "Table":
        """The root table."""
        if self.size < 8:
            raise self.error("", f"a flatbuffer must have 8 bytes or more, but got {self.size}")
        return Table(self, u32(self.data, 0), "root")


class Table:
    """A table of a flatbuffer. Every method returns a default if the field is absent.

    Attributes:
        source: the file.
        pos: position of the table in the file.
        where: the table's name in messages.
        nbytes: bytes of the table itself, without the objects that its offsets point to.
        fields: offset of each slot's field from pos; 0 for an absent field.
    """

    __slots__ = ("fields", "nbytes", "pos", "source", "where")

    def __init__(self, source: FlatBuffer, pos: int, where: str) -> None:
        self.source, self.pos, self.where = source, pos, where
        if not 0 <= pos <= source.size - 4:
            raise self.error(f"must begin within the file's {source.size} bytes, but got {pos}")
        vtable = pos - NUMBERS["i"].unpack_from(source.data, pos)[0]
        if not 0 <= vtable <= source.size - 4:
            raise self.error(f"its vtable must be within {source.size} bytes, but got {vtable}")
        nbytes, self.nbytes = VTABLE.unpack_from(source.data, vtable)
        if nbytes < 4 or nbytes % 2 or vtable + nbytes > source.size:
            raise self.error(
                f"its vtable must have an even number of bytes, 4 to {source.size - vtable}, "
                f"but got {nbytes}"
            )
        count = nbytes // 2 - 2
        source.spend(where, TABLE_WORK + count)
        self.fields: tuple[int, ...] = struct.unpack_from(f"<{count}H", source.data, vtable + 4)

    def error(self, text: str, cause: str = DAMAGED) -> ModelError:
        """Returns an error about this table."""
        return self.source.error(self.where, text, cause)

    def place(self, slot: int, nbytes: int) -> int:
        """Returns the position of a field's bytes; 0 if the field is absent."""
        offset = self.fields[slot] if slot < len(self.fields) else 0
        if not offset:
            return 0
        if self.pos + offset + nbytes > self.source.size:
            raise self.error(
                f"field {slot} must end within the file's {self.source.size} bytes, "
                f"but got {nbytes} bytes at {self.pos + offset}"
            )
        return self.pos + offset

    def number(self, slot: int, code: str = "i", default: int = 0) -> int:
        """Reads an integer; `code` is its code in the struct module."""
        form = NUMBERS[code]
        at = self.place(slot, form.size)
        value: int = form.unpack_from(self.source.data, at)[0] if at else default
        return value

    def scalar(self, slot: int, code: str) -> Any:
        """Reads a number or bool by its code in the struct module; None if the field is absent."""
        form = NUMBERS[code]
        at = self.place(slot, form.size)
        return form.unpack_from(self.source.data, at)[0] if at else None

    def target(self, slot: int) -> int:
        """Returns the position of a field's table, vector or string; 0 if the field is absent."""
        at = self.place(slot, 4)
        if not at:
            return 0
        target = at + u32(self.source.data, at)
        if not at < target <= self.source.size - 4:
            raise self.error(
                f"field {slot} must point forward and within the file's {self.source.size} bytes, "
                f"but got {target} from {at}"
            )
        return target

    def table(self, slot: int, what: str) -> "Table | None":
        """Reads a table, which is called `what` in messages; None if the field is absent."""
        target = self.target(slot)
        return Table(self.source, target, f"{self.where}, {what}") if target else None

    def vector(self, slot: int, itemsize: int, what: str) -> tuple[int, int]:
        """Returns position and number of a vector's items; (0, 0) if the field is absent."""
        target = self.target(slot)
        if not target:
            return 0, 0
        length = u32(self.source.data, target)
        limit = (self.source.size - target - 4) // itemsize
        if length > limit:
            raise self.error(f"{what} must have at most {limit} entries, but claims {length}")
        return target + 4, length

    def array(self, slot: int, dtype: Any, what: str) -> Array:
        """Reads a vector of numbers as a read-only view."""
        dtype = np.dtype(dtype)
        start, length = self.vector(slot, dtype.itemsize, what)
        return np.frombuffer(self.source.data, dtype, length, start) if length else _empty(dtype)

    def numbers(self, slot: int, what: str) -> tuple[int, ...]:
        """Reads a vector of int32."""
        start, length = self.vector(slot, 4, what)
        self.source.spend(self.where, length)
        return struct.unpack_from(f"<{length}i", self.source.data, start)

    def string(self, slot: int, what: str) -> str:
        """Reads a string and escapes control characters, because strings appear in messages."""
        return escaped(str(self.text(slot, what), "utf-8", "replace"))

    def text(self, slot: int, what: str) -> bytes:
        """Reads a string's bytes."""
        start, length = self.vector(slot, 1, what)
        if length > MAX_TEXT:
            raise self.error(f"{what} must have at most {MAX_TEXT} bytes, but got {length}")
        self.source.spend(self.where, length)
        return bytes(self.source.data[start : start + length])

    def tables(self, slot: int, what: str, prefix: str = "") -> "Iterator[Table]":
        """Reads a vector of tables."""
        start, length = self.vector(slot, 4, f"list of {what}s")
        self.source.spend(self.where, length)  # each Table counts itself
        for i in range(length):
            at = start + 4 * i
            yield Table(self.source, at + u32(self.source.data, at), f"{prefix}{what} {i}")


def u32(data: memoryview, at: int) -> int:
    """Reads the unsigned 32-bit integer at an offset."""
    value: int = UINT32.unpack_from(data, at)[0]
    return value


def _empty(dtype: np.dtype[Any]) -> Array:
    empty = np.empty(0, dtype)
    empty.flags.writeable = False
    return empty
