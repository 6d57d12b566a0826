"""Names and options of operators, as the generated code of the Circle schema spells them.

The classes of circle-schema 0.10 serve both formats: its operators, types and option tables are
those of TFLite 2.20, and Circle's own have codes that TFLite does not use. Importing that package
loads two hundred modules (40 ms), so the few that a model needs are loaded by their files.
"""

import importlib.util
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from odt.core.model.flatbuffer import Table
from odt.kernels.opdef import Array

# Option tables that are not called as their operator.
_POOL, _REDUCER, _RANDOM = "Pool2DOptions", "ReducerOptions", "RandomOptions"
_SHARED = {
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

# Fields that Circle calls otherwise than TFLite; here TFLite's word counts.
_RENAMED = {"adjoint_lhs": "adj_x", "adjoint_rhs": "adj_y"}


def operator_name(code: int) -> str | None:
    """The BuiltinOperator name of a code; None for an unknown code."""
    return enumeration("BuiltinOperator").get(code)


def tensor_type(code: int) -> str | None:
    """The TensorType name of a code, such as FLOAT32; None for an unknown code."""
    return enumeration("TensorType").get(code)


def read_options(operator: Table, op: str) -> Mapping[str, Any]:
    """Reads an operator's options: field in snake case → number, text or tuple of numbers.

    An operator that has options but no table of them gets the schema's defaults. A custom
    operator has one option, its bytes.

    Raises:
        ModelError: if the table is that of another operator.
    """
    if op.startswith("CUSTOM:"):
        start, size = operator.vector(5, 1, "custom options")
        return {"custom_options": bytes(operator.source.data[start : start + size])}
    options, wanted = {}, _options_of(op)
    for slot, union in ((3, "BuiltinOptions"), (11, "BuiltinOptions2")):
        code = operator.number(slot, "B")
        table = operator.table(slot + 1, "options") if code else None
        if table is None:
            continue
        name = enumeration(union).get(code)
        if name is None or wanted not in (None, name):
            raise operator.error(
                f"its options must be {wanted or 'of the schema'}, "
                f"but got {name or f'{union} {code}'}"
            )
        options.update(_decode(name, table))
    return options or (_defaults(wanted) if wanted else {})


@cache
def _options_of(op: str) -> str | None:
    """The name of an operator's option table; None if it has none."""
    if op in _SHARED:
        return _SHARED[op]
    wanted = op.replace("_", "").lower() + "options"
    unions = (enumeration("BuiltinOptions"), enumeration("BuiltinOptions2"))
    return next((n for names in unions for n in names.values() if n.lower() == wanted), None)


@cache
def _defaults(name: str) -> Mapping[str, Any]:
    return MappingProxyType({field: read(_Nothing()) for field, read in _fields(name)})


def _decode(name: str, table: Table) -> dict[str, Any]:
    checked = _Checked(table)
    return {field: read(checked) for field, read in _fields(name)}


@cache
def _fields(name: str) -> tuple[tuple[str, Any], ...]:
    """Fields of an option table: name in snake case, and the function that reads it."""
    generated = generated_class(name)
    methods = {n: m for n, m in vars(generated).items() if callable(m) and n != "Init"}
    helpers = {n + end for n in methods for end in ("AsNumpy", "Length", "IsNone")}
    fields = []
    for n in methods:
        if n not in helpers and not n.startswith("_"):
            vector = f"{n}AsNumpy" in methods
            fields.append((_snake_case(n), _reader(generated, f"{n}AsNumpy" if vector else n)))
    return tuple(fields)


def _snake_case(name: str) -> str:
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    return _RENAMED.get(snake, snake)


def _reader(generated: Any, method: str) -> Any:
    vector = method.endswith("AsNumpy")

    def read(table: Any) -> Any:
        view = generated()
        view._tab = table
        value = getattr(view, method)()
        if vector:
            return tuple(value.tolist()) if isinstance(value, np.ndarray) else ()
        return value

    return read


class _Nothing:
    """Stands for a table without fields."""

    Pos = 0

    def Offset(self, vtable_offset: int) -> int:
        return 0


class _Checked:
    """A checked table with the interface of flatbuffers' Table, for generated code."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._slot = 0
        self.Pos = 0

    def Offset(self, vtable_offset: int) -> int:
        """Returns the slot plus one, which generated code passes back to the other methods."""
        self._slot = (vtable_offset - 4) // 2
        return int(self._table.place(self._slot, 1) > 0)

    def Get(self, flags: Any, offset: int) -> Any:
        at = self._table.place(self._slot, flags.bytewidth)
        return flags.py_type(flags.packer_type.unpack_from(self._table.source.data, at)[0])

    def String(self, offset: int) -> str:
        return self._table.string(self._slot, "text")

    def GetVectorAsNumpy(self, flags: Any, offset: int) -> Array:
        code = flags.packer_type.format
        values = self._table.array(self._slot, np.dtype(code), "option")
        self._table.source.spend(self._table.where, len(values))
        return values


@cache
def enumeration(name: str) -> Mapping[int, str]:
    """Value → name of an enumeration; 0 is NONE in unions."""
    return {v: n for n, v in vars(generated_class(name)).items() if isinstance(v, int)}


@cache
def generated_class(name: str) -> Any:
    """Imports a generated class from its own file."""
    package = importlib.util.find_spec("circle_schema")
    assert package is not None, "circle-schema is a requirement of odt"
    assert package.origin is not None
    path = Path(package.origin).parent / "v0_10" / "circle" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"odt.core.model.operator_options.{name}", path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)
