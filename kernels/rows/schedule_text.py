"""Schedules as text: NAME or NAME:OPTION=VALUE,OPTION=VALUE.

The schedules themselves are imported when a text names one.
"""

import importlib
from dataclasses import fields
from typing import Any

from odt.errors import OptionError
from odt.kernels.rows.option_text import parse_options
from odt.kernels.rows.row_index import SCHEDULES
from odt.kernels.rows.scheduledef import WHOLE, Schedule


def parse_schedule(text: str) -> Schedule:
    """Parses a schedule as on the command line: NAME or NAME:OPTION=VALUE,OPTION=VALUE.

    Raises:
        OptionError: if there is no such schedule or option, or a value is invalid.
    """
    word, options = parse_options("schedule", text)
    if word not in SCHEDULES:
        names = ", ".join(f"`{name}`" for name in SCHEDULES)
        raise OptionError("schedule", f"must be one of {names}", text or "nothing")
    kind = importlib.import_module("odt.kernels.rows.schedules").SCHEDULES[word]
    types = {f.name: f.type for f in fields(kind)}
    values: dict[str, Any] = {}
    for name, value in options.items():
        if name not in types:
            names = ", ".join(f"`{name}`" for name in types)
            raise OptionError("schedule", f"`{kind.word}` has {names}", name or "nothing")
        values[name] = _value(name, types[name], value)
    schedule: Schedule = kind(**values)
    return schedule


def _value(name: str, kind: Any, text: str) -> float | bool:
    try:
        if kind is bool:
            return {"true": True, "false": False}[text]
        return int(text) if kind in WHOLE else float(text)
    except (KeyError, ValueError):
        number = "a whole number" if kind in WHOLE else "a number"
        word = "true or false" if kind is bool else number
        raise OptionError(name, f"must be {word}", text or "nothing") from None
