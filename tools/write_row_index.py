"""Writes row_index.py and quantized_index.py in kernels/rows from the rows.

The first holds the names and numbers that lists and `odt train --help` show, the second the facts
that readers and writers of quantized files need: neither imports a row. Tests compare them with the
rows.

    python tools/write_row_index.py
"""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from pprint import pformat

import odt.kernels
from odt.kernels import registry
from odt.kernels.registry import OPTIMIZERS, R, Rows, find_operator, operator_names
from odt.kernels.rows.quantizeddef import QuantizedDef
from odt.kernels.rows.schedules import SCHEDULES
from odt.kernels.rows.updatedef import HyperParameter, UpdateRule

INDEX = Path(odt.kernels.__path__[0]) / "rows/row_index.py"
QUANTIZED_INDEX = INDEX.with_name("quantized_index.py")
TOP = '''"""What lists show of the rows in odt.kernels, readable without importing a row or NumPy.

Written by tools/write_row_index.py from the rows.
"""

# Folder → names in the order of lists → onert_train's number.
ROWS: dict[str, dict[str, int | None]] = '''
QUANTIZED_TOP = '''"""What operators' rows hold of quantized tensors, readable without a row.

Written by tools/write_row_index.py from the rows.
"""

from odt.kernels.rows.quantizeddef import Layer, QuantizedDef

# Operator → `quantized` of its row.
QUANTIZED: dict[str, QuantizedDef] = '''
SCHEDULE_NAMES = """
# Words for learning rate schedules.
SCHEDULES: tuple[str, ...] = """
HYPER_PARAMETERS = """
# Hyper-parameters of all optimizers → description, maximum, whether values are below it, whether it
# is a switch.
HYPER_PARAMETERS: dict[str, tuple[str, float | None, bool, bool]] = """


def index() -> str:
    """The whole module, formatted."""
    text = (
        f"{TOP}{pformat(rows(), sort_dicts=False)}\n"
        f"{SCHEDULE_NAMES}{tuple(SCHEDULES)}\n"
        f"{HYPER_PARAMETERS}{pformat(hyper_parameters(), sort_dicts=False)}\n"
    )
    return formatted(text)


def quantized_index() -> str:
    """The whole module of operators on quantized tensors, formatted."""
    rows = [row for row in map(find_operator, operator_names()) if row is not None]
    entries = [f"{r.name!r}: {constructor(r.quantized)}" for r in rows if r.quantized is not None]
    return formatted(f"{QUANTIZED_TOP}{{{', '.join(entries)},}}\n")


def constructor(facts: QuantizedDef) -> str:
    """The call that makes a QuantizedDef, without defaults."""
    default = QuantizedDef()
    values = [(f.name, getattr(facts, f.name)) for f in fields(QuantizedDef)]
    other = [f"{name}={value!r}" for name, value in values if value != getattr(default, name)]
    return f"QuantizedDef({', '.join(other)})"


def formatted(text: str) -> str:
    """A module as ruff formats it."""
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(INDEX), "-"]
    return subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout


def rows() -> dict[str, dict[str, int | None]]:
    """Names and onert's numbers of the rows of each folder."""
    numbers_of_folder: dict[str, dict[str, int | None]] = {}
    for value in vars(registry).values():
        if isinstance(value, Rows):
            numbers_of_folder[value.folder] = {row.name: row.onert for row in in_order(value)}
    return numbers_of_folder


def in_order(rows: Rows[R]) -> list[R]:
    """Rows by position, then by name; the present index may not know the positions."""
    return sorted(rows.values(), key=lambda row: (row.place, row.name))


def hyper_parameters() -> dict[str, tuple[str, float | None, bool, bool]]:
    """The hyper-parameters of all optimizers, with what each is and for which of them."""
    users: dict[str, dict[UpdateRule, HyperParameter]] = {}
    for rule in in_order(OPTIMIZERS):
        for h in rule.hyper_parameters:
            users.setdefault(h.name, {})[rule] = h
    descriptions = {}
    for name, rules in users.items():
        h = next(iter(rules.values()))
        descriptions[name] = description(rules), h.most, h.below, h.switch
    return descriptions


def description(users: dict[UpdateRule, HyperParameter]) -> str:
    """What a hyper-parameter is, and for which optimizers."""
    notes: dict[str, list[str]] = {}
    for rule, h in users.items():
        notes.setdefault(h.note, []).append(rule.name)
    text = next(iter(users.values())).help
    if len(notes) == 1:
        every = len(users) == len(OPTIMIZERS)
        return f"{text}." if every else f"{text} for {series([r.class_name for r in users])}."
    usual = max(notes, key=lambda note: len(notes[note]))
    others = [f"{note} for {series(names)}" for note, names in notes.items() if note != usual]
    if usual:
        others.append(f"{usual} otherwise")
    return f"{text} ({', '.join(others)})."


def series(names: Sequence[str]) -> str:
    """Returns names as words: A, B and C."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


if __name__ == "__main__":
    INDEX.write_text(index(), encoding="utf-8")
    QUANTIZED_INDEX.write_text(quantized_index(), encoding="utf-8")
