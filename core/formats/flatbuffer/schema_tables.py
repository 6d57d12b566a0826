"""Tables of flatbuffers as dictionaries: read from a file, written by a builder.

The schemas are those of Circle and TFLite models, TFLite metadata and checkpoints of ONNX Runtime.
Circle's holds all of them; TFLite's has some tables and enumerations of its own.

A dictionary holds the fields that are present: numbers, strings as bytes, vectors of numbers as
arrays, tables as dictionaries, vectors of tables as lists.
"""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from odt.core.formats.flatbuffer.flatbuffer import CIRCLE, TFLITE, Table
from odt.errors import ModelError
from odt.kernels.rows.opdef import Array
from odt.schemas import circle, ort_checkpoint, tflite_metadata

if TYPE_CHECKING:
    import flatbuffers

TABLES = circle.TABLES | tflite_metadata.TABLES | ort_checkpoint.TABLES
ENUMERATIONS = circle.ENUMERATIONS | tflite_metadata.ENUMERATIONS
# By schema.
TABLES_OF = {CIRCLE: TABLES, TFLITE: TABLES | circle.TFLITE_TABLES}
ENUMERATIONS_OF = {CIRCLE: ENUMERATIONS, TFLITE: ENUMERATIONS | circle.TFLITE_ENUMERATIONS}
UNUSED = "-"
TEXT = "str"
DATA_ALIGNMENT = 16  # alignment of the vector `data` of table Buffer, required by the schema
# Types of numbers, as codes of the struct module → constructor in Python.
NUMBERS = {"?": bool, "f": float, "d": float} | dict.fromkeys("bBhHiIqQ", int)


class Field(NamedTuple):
    """A field of a table.

    Attributes:
        slot: its position in the table of the schema.
        name: its name.
        kind: code of the struct module, str, or name of a table or a union.
        is_vector: whether it holds several values of this kind.
        default: value of an absent number, () for a vector, else None.
    """

    slot: int
    name: str
    kind: str
    is_vector: bool
    default: Any


@cache
def fields_of(table: str, schema: str = CIRCLE) -> tuple[Field, ...]:
    """Returns the fields of a table that are in use in a schema."""
    result = []
    for slot, text in enumerate(TABLES_OF[schema][table].split()):
        name, _, kind = text.partition(":")
        kind, _, default = kind.partition("=")
        element = kind.strip("[]")
        value: Any = None
        if element != kind:
            value = ()
        elif kind in NUMBERS:
            value = NUMBERS[kind](float(default or 0))
        if name != UNUSED:
            result.append(Field(slot, name, element, element != kind, value))
    return tuple(result)


@cache
def code_of(enumeration: str, name: str, schema: str = CIRCLE) -> int:
    """Returns the number of a name in an enumeration, such as FLOAT32 in TensorType."""
    return next(code for code, n in ENUMERATIONS_OF[schema][enumeration].items() if n == name)


def name_of(enumeration: str, code: int, schema: str = CIRCLE) -> str | None:
    """Returns the name of a number in an enumeration; None for an unknown one."""
    return ENUMERATIONS_OF[schema][enumeration].get(code)


def unknown_code(table: Table, code: int, text: str) -> ModelError:
    """Returns the error about a number that an enumeration of the file's schema does not have.

    Newer schemas add numbers; those below 0 are Circle's.

    Args:
        table: the table with the number.
        code: the number.
        text: the rule, and what the table has instead.
    """
    schema = table.source.schema
    if code < 0 and schema == TFLITE:
        return table.error(text)
    version = circle.VERSIONS[schema]
    return table.error(text, f"The file is newer than odt knows, which is {version}.")


def unpack(table: Table, name: str) -> dict[str, Any]:
    """Reads a table and everything that it refers to.

    Args:
        table: the table in a file.
        name: its name in the schema of the file.

    Raises:
        ModelError: if the bytes are damaged.
    """
    values: dict[str, Any] = {}
    for field in fields_of(name, table.source.schema):
        value = _value(table, field, values)
        if value is not None:
            values[field.name] = value
    return values


def _value(table: Table, field: Field, siblings: Mapping[str, Any]) -> Any:
    """Reads a field, given those before it, one of which is the type of a union; None if absent."""
    slot, name, kind, is_vector, _ = field
    tables = TABLES_OF[table.source.schema]
    if is_vector and not table.target(slot):
        return None
    if is_vector and kind in tables:
        return [unpack(t, kind) for t in table.tables(slot, name)]
    if is_vector:
        values = table.array(slot, np.dtype(f"<{kind}"), name)
        if kind != "B":  # bytes are not converted
            table.source.spend(table.where, len(values))
        return values
    if kind in NUMBERS:
        return table.scalar(slot, kind)
    if kind == TEXT:
        return table.text(slot, name) if table.target(slot) else None
    if kind not in tables:
        code = siblings.get(f"{name}_type", 0)
        member = name_of(kind, code, table.source.schema) if code else None
        if code and member is None:
            text = f"its {name} must be in the schema, but got {kind} {code}"
            raise unknown_code(table, code, text)
        kind = member or ""
    child = table.table(slot, name) if kind else None
    return unpack(child, kind) if child else None


def pack(
    builder: "flatbuffers.Builder", name: str, values: Mapping[str, Any], schema: str = CIRCLE
) -> int:
    """Writes a table and everything that it refers to.

    Args:
        builder: builder of the flatbuffer.
        name: name of the table in the schema.
        values: fields of the table; None for an absent field.
        schema: circle or tflite.

    Returns:
        The table's offset.
    """
    in_use = fields_of(name, schema)
    fields = [(f, values[f.name]) for f in in_use if values.get(f.name) is not None]
    alignment = DATA_ALIGNMENT if name == "Buffer" else 1
    offsets = {
        f.slot: _pack_object(builder, f, value, values, alignment, schema)
        for f, value in fields
        if f.is_vector or f.kind not in NUMBERS
    }
    builder.StartObject(len(TABLES_OF[schema][name].split()))
    for f, value in fields:
        if f.slot in offsets:
            builder.PrependUOffsetTRelativeSlot(f.slot, offsets[f.slot], 0)
        else:
            builder.PrependSlot(_flags(f.kind), f.slot, value, f.default)
    return int(builder.EndObject())


@cache
def _flags(kind: str) -> Any:
    """Returns the class in flatbuffers.number_types for a code of the struct module."""
    from flatbuffers import number_types

    named = {n: f for n, f in vars(number_types).items() if n.endswith("Flags")}
    return next(
        flags
        for name, flags in named.items()
        if "Offset" not in name and flags.packer_type.format.strip("<") == kind
    )


def _pack_object(
    builder: "flatbuffers.Builder",
    field: Field,
    value: Any,
    values: Mapping[str, Any],
    alignment: int,
    schema: str,
) -> int:
    """Writes a string, vector or table; returns its offset."""
    kind = field.kind
    tables = TABLES_OF[schema]
    if field.is_vector and kind in tables:
        offsets = [pack(builder, kind, v, schema) for v in value]
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())
    if field.is_vector:
        return _numbers(builder, np.asarray(value, f"<{kind}"), alignment)
    if kind == TEXT:
        return int(builder.CreateString(value))
    if kind not in tables:
        kind = ENUMERATIONS_OF[schema][kind][values[f"{field.name}_type"]]
    return pack(builder, kind, value, schema)


def _numbers(builder: "flatbuffers.Builder", values: Array, alignment: int) -> int:
    """Writes a vector of numbers, as Builder.CreateNumpyVector does, with an alignment."""
    builder.StartVector(values.itemsize, len(values), max(alignment, values.itemsize))
    builder.head -= values.nbytes
    builder.Bytes[builder.head : builder.head + values.nbytes] = values.tobytes()
    return int(builder.EndVector())
