"""Registry of operators, losses, optimizers and metrics, found by file name.

Their modules are imported when they are needed.
"""

import importlib
import os
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from odt.kernels.rows.row_index import ROWS

if TYPE_CHECKING:
    from odt.kernels.families.requantize import Constants
    from odt.kernels.rows.lossdef import LossDef
    from odt.kernels.rows.metricdef import MetricDef
    from odt.kernels.rows.opdef import OpDef
    from odt.kernels.rows.updatedef import UpdateRule


class Row(Protocol):
    """A row with a name and a position in lists."""

    @property
    def name(self) -> str: ...

    @property
    def place(self) -> int: ...

    @property
    def onert(self) -> int | None: ...


R = TypeVar("R", bound=Row)


def _modules(folder: str) -> frozenset[str]:
    names = os.listdir(os.path.join(os.path.dirname(__file__), folder))
    return frozenset(n[:-3] for n in names if n.endswith(".py") and n != "__init__.py")


class Rows(Mapping[str, R]):
    """Mapping from names to the rows of a folder, one module for each row, in order of position.

    Names, their order and onert's numbers import nothing: they are read from
    kernels/rows/row_index.py, which `make pages` writes. Names that it lacks come last.

    Args:
        folder: folder in `kernels`.
        attribute: name of the row in each module.
    """

    def __init__(self, folder: str, attribute: str) -> None:
        self.folder, self._attribute = folder, attribute
        self._index = ROWS.get(folder, {})
        self._added: dict[str, R] = {}
        self._imported: dict[str, R] = {}

    def add(self, row: R) -> None:
        """Adds a custom row, which is not listed."""
        self._added[row.name] = row

    @cached_property
    def _names(self) -> frozenset[str]:
        return _modules(self.folder)

    @cached_property
    def _sorted(self) -> tuple[str, ...]:
        return (
            *(name for name in self._index if name in self._names),
            *sorted(self._names - self._index.keys()),
        )

    @cached_property
    def onert_numbers(self) -> Mapping[str, str]:
        """Returns onert_train's numbers → names, in the order of the numbers."""
        names = {n: name for name, n in self._index.items() if n is not None}
        return {str(number): names[number] for number in sorted(names)}

    def __contains__(self, name: object) -> bool:
        return name in self._names or name in self._added

    def __getitem__(self, name: str) -> R:
        if name in self._added:
            return self._added[name]
        if name not in self._imported:
            if name not in self._names:
                raise KeyError(name)
            module = importlib.import_module(f"odt.kernels.{self.folder}.{name}")
            self._imported[name] = cast(R, getattr(module, self._attribute))
        return self._imported[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sorted)

    def __len__(self) -> int:
        return len(self._names)


LOSSES: "Rows[LossDef]" = Rows("losses", "LOSS")
OPTIMIZERS: "Rows[UpdateRule]" = Rows("optimizers", "RULE")
METRICS: "Rows[MetricDef]" = Rows("metrics", "METRIC")

CUSTOM = "CUSTOM:"  # prefix of the names of custom operators
INTEGER = "INTEGER_"  # prefix of the names of rows in kernels/integer


@cache
def operator_names() -> tuple[str, ...]:
    """Returns the names of all operators that have a row, sorted; custom operators come last."""
    custom = (_row(f"custom.{module}").name for module in _modules("custom"))
    return (*sorted(name.upper() for name in _modules("ops")), *sorted(custom))


@cache
def integer_names() -> frozenset[str]:
    """Returns the names of all operators that have a row for quantized tensors."""
    return frozenset(name.upper() for name in _modules("integer"))


def integer_constants(name: str) -> "Constants":
    """Returns the function that computes the constants of an integer row; it may have none."""
    module = importlib.import_module(f"odt.kernels.integer.{name.lower()}")
    return cast("Constants", getattr(module, "constants", lambda tensors: {}))


@cache
def find_operator(name: str) -> "OpDef | None":
    """Returns the row of an operator, or None if odt does not support it.

    Args:
        name: name of a BuiltinOperator; INTEGER_ and the name of an integer row; or CUSTOM: and the
            code of a custom operator.
    """
    folder, _, module = operator_module(name).partition(".")
    if module not in _modules(folder):
        return None
    row = _row(f"{folder}.{module}")
    return row if row.name == name else None  # custom codes distinguish upper and lower case


def operator_module(name: str) -> str:
    """Returns the module in `kernels` that has the row of an operator, if there is one."""
    for prefix, folder in ((INTEGER, "integer"), (CUSTOM, "custom")):
        if name.startswith(prefix):
            return f"{folder}.{name[len(prefix) :].lower()}"
    return f"ops.{name.lower()}"


def _row(module: str) -> "OpDef":
    return cast("OpDef", importlib.import_module(f"odt.kernels.{module}").OP)
