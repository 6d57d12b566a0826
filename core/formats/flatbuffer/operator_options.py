"""Names and options of operators, as in the schemas of Circle and TFLite.

Circle's schema has the operators and option tables of TFLite, and others with codes that TFLite
does not use.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from odt.core.formats.flatbuffer.flatbuffer import Table
from odt.core.formats.flatbuffer.schema_tables import (
    ENUMERATIONS_OF,
    fields_of,
    unknown_code,
    unpack,
)
from odt.core.formats.flatbuffer.slots import OperatorSlot
from odt.errors import escaped
from odt.schemas.circle import ENUMERATIONS

_POOL, _REDUCER, _RANDOM = "Pool2DOptions", "ReducerOptions", "RandomOptions"
# Operator → its option table, where the name of the table does not follow from the operator's.
_TABLES = {
    "AVERAGE_POOL_2D": _POOL,
    "MAX_POOL_2D": _POOL,
    "L2_POOL_2D": _POOL,
    "L2_NORMALIZATION": "L2NormOptions",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions",
    "ROPE": "RoPEOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "MINIMUM": "MaximumMinimumOptions",
    "MEAN": _REDUCER,
    "SUM": _REDUCER,
    "REDUCE_PROD": _REDUCER,
    "REDUCE_MAX": _REDUCER,
    "REDUCE_MIN": _REDUCER,
    "REDUCE_ANY": _REDUCER,
    "REDUCE_ALL": _REDUCER,
    "CONV_3D_TRANSPOSE": "Conv3DOptions",
    "RANDOM_STANDARD_NORMAL": _RANDOM,
    "RANDOM_UNIFORM": _RANDOM,
    "MULTINOMIAL": _RANDOM,
}


def operator_name(code: int) -> str | None:
    """Returns the BuiltinOperator name of a code; None for an unknown code."""
    return ENUMERATIONS["BuiltinOperator"].get(code)


def operator_code(byte: int, number: int) -> int:
    """Returns the code of an operator from the two fields of an OperatorCode.

    Args:
        byte: deprecated_builtin_code, the only field of old files.
        number: builtin_code, which holds also codes above 127.
    """
    # Operators of Circle alone have negative codes, and an absent field is 0.
    return min(byte, number) if min(byte, number) < 0 else max(byte, number)


def tensor_type(code: int) -> str | None:
    """Returns the TensorType name of a code, such as FLOAT32; None for an unknown code.

    No code has two names, but UINT4 has two codes: see `schema_tables.name_of`.
    """
    names = (types["TensorType"].get(code) for types in ENUMERATIONS_OF.values())
    return next((name for name in names if name), None)


def read_options(operator: Table, op: str) -> Mapping[str, Any]:
    """Reads an operator's options: field in snake case → number, text or tuple of numbers.

    An operator without its table of options gets the schema's defaults. A custom operator has one
    option: the bytes of its options.

    Raises:
        ModelError: if the table belongs to another operator.
    """
    if op.startswith("CUSTOM:"):
        start, size = operator.vector(OperatorSlot.CUSTOM_OPTIONS, 1, "custom options")
        return {"custom_options": bytes(operator.source.data[start : start + size])}
    options: dict[str, Any] = {}
    table_name = options_table(op)
    for type_slot, union in (
        (OperatorSlot.BUILTIN_OPTIONS_TYPE, "BuiltinOptions"),
        (OperatorSlot.BUILTIN_OPTIONS2_TYPE, "BuiltinOptions2"),
    ):
        code = operator.number(type_slot, "B")
        table = operator.table(type_slot + 1, "options") if code else None  # the value follows
        if table is None:
            continue
        name = ENUMERATIONS[union].get(code)
        if name is None:
            text = f"its options must be of the schema, but got {union} {code}"
            raise unknown_code(operator, code, text)
        if table_name not in (None, name):
            raise operator.error(f"its options must be {table_name}, but got {name}")
        options.update(_decode(name, table))
    return options or default_options(op)


def default_options(op: str) -> Mapping[str, Any]:
    """Returns an operator's options with the schema's defaults."""
    table_name = options_table(op)
    return _defaults(table_name) if table_name else {}


@cache
def options_table(op: str) -> str | None:
    """Returns the name of an operator's option table in the schema; None if it has none."""
    if op in _TABLES:
        return _TABLES[op]
    table_name = op.replace("_", "").lower() + "options"
    unions = (ENUMERATIONS["BuiltinOptions"], ENUMERATIONS["BuiltinOptions2"])
    return next((n for names in unions for n in names.values() if n.lower() == table_name), None)


@cache
def _defaults(name: str) -> Mapping[str, Any]:
    return MappingProxyType({f.name: f.default for f in fields_of(name)})


def _decode(name: str, table: Table) -> dict[str, Any]:
    options = {field: _plain(value) for field, value in unpack(table, name).items()}
    return {**_defaults(name), **options}


def _plain(value: Any) -> Any:
    """Converts a value to a number, text or tuple of numbers."""
    if isinstance(value, bytes):
        return escaped(str(value, "utf-8", "replace"))
    return tuple(value.tolist()) if isinstance(value, np.ndarray) else value
