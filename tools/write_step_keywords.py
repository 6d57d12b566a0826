"""Writes src/odt/training/step_keywords.py, the types of keywords, from the rows of options.

python tools/write_step_keywords.py
"""

from pathlib import Path

import odt
from odt.core.options.option import Kind, Number, Switch, Whole, Word
from odt.core.options.training_options import STEP_OPTIONS

assert odt.__file__ is not None
MODULE = Path(odt.__file__).with_name("training") / "step_keywords.py"
TOP = '''"""Keywords of `odt.Trainer` that are options of the steps of training, for type checkers.

Written by tools/write_step_keywords.py from the rows in core/options/training_options.py.
"""

from typing import Literal, TypedDict


class StepKeywords(TypedDict, total=False):
    """Options of the steps of training; None is the value of a file, or the default."""

'''


def module() -> str:
    """The whole module."""
    return TOP + "".join(f"    {n}: {type_of(r.kind)} | None\n" for n, r in STEP_OPTIONS.items())


def type_of(kind: Kind) -> str:
    """The type of a kind's values."""
    if isinstance(kind, Word):
        listed = ", ".join(f'"{word}"' for word in kind.words)
        return f"Literal[{listed}]"
    types: dict[type, str] = {Number: "float", Whole: "int", Switch: "bool"}
    return types[type(kind)]


if __name__ == "__main__":
    MODULE.write_text(module(), encoding="utf-8")
