"""Writes kernels/rows/row_index.py from the rows: python tools/write_row_index.py.

The index holds what lists of names and `odt train --help` show, so that they import no row. A test
compares it with the rows.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from pprint import pformat

import odt.kernels
from odt.kernels import registry
from odt.kernels.registry import OPTIMIZERS, R, Rows
from odt.kernels.rows.schedules import SCHEDULES
from odt.kernels.rows.updatedef import HyperParameter, UpdateRule

INDEX = Path(odt.kernels.__path__[0]) / "rows/row_index.py"
TOP = '''"""What lists show of the rows in this folder, readable without importing a row or NumPy.

Written by tools/write_row_index.py from the rows.
"""

# Folder → names in the order of lists → onert_train's number.
ROWS: dict[str, dict[str, int | None]] = '''
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
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(INDEX), "-"]
    return subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout


def rows() -> dict[str, dict[str, int | None]]:
    """Names and onert's numbers of the rows of each folder."""
    found: dict[str, dict[str, int | None]] = {}
    for value in vars(registry).values():
        if isinstance(value, Rows):
            found[value.folder] = {row.name: row.onert for row in in_order(value)}
    return found


def in_order(rows: Rows[R]) -> list[R]:
    """Rows by position, which the present index may not know, then by name."""
    return sorted(rows.values(), key=lambda row: (row.place, row.name))


def hyper_parameters() -> dict[str, tuple[str, float | None, bool, bool]]:
    """The hyper-parameters of all optimizers, with what each is and for which of them."""
    users: dict[str, dict[UpdateRule, HyperParameter]] = {}
    for rule in in_order(OPTIMIZERS):
        for h in rule.hyper_parameters:
            users.setdefault(h.name, {})[rule] = h
    found = {}
    for name, rules in users.items():
        h = next(iter(rules.values()))
        found[name] = description(rules), h.most, h.below, h.switch
    return found


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
    return f"{text} ({', '.join([*others, *([f'{usual} otherwise'] if usual else [])])})."


def series(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


if __name__ == "__main__":
    INDEX.write_text(index(), encoding="utf-8")
