"""Rewrites messages of the Python API for the command line.

Messages and warnings name options as the Python API does, in backticks: `micro_batch=1` becomes
--micro-batch 1, `keep_best=True` becomes --keep-best, and `mean_squared_error` becomes
mean-squared-error.
"""

import re

from odt.core.options.fit_options import FIT_OPTIONS
from odt.core.options.model_options import MODEL_OPTIONS
from odt.core.options.session_options import SESSION_OPTIONS
from odt.core.options.training_options import RECIPE_OPTIONS, SELECTION_OPTIONS

TABLES = (RECIPE_OPTIONS, SELECTION_OPTIONS, SESSION_OPTIONS, FIT_OPTIONS, MODEL_OPTIONS)
ROWS = [row for rows in TABLES for row in rows.values()]
# Argument in Python → option, if they differ by more than dashes.
OPTIONS = {row.name: row.word for row in ROWS if row.word != row.name.replace("_", "-")} | {
    "float_weights": "export-weights",
    "validation_data": "validation-input",
    "out": "output",
    "folder": "output",
    "record": "as",
}
# Text in backticks that names no option → what the command line has.
TEXTS = {
    "float_weights=True": "--export-weights float",
    "float_weights=False": "--export-weights as-stored",
    "decay_steps=": "--schedule NAME:decay_steps=N",
    "export=False": "--no-export",
    "Model.summary()": "odt inspect",
    "Model.save()": "odt convert",
    "OdtError.details": "odt -v",
}
# Text in backticks: a key of TEXTS; an argument, as name and value; a word; or a command.
REFERENCE = re.compile(
    rf"`(?:({'|'.join(map(re.escape, TEXTS))})|([\w-]+)=([^`]*)|([\w-]+(?::[^`]*)?)|(odt [^`]*))`"
)


def spell(message: str) -> str:
    """Replaces Python names in backticks by options, values and commands."""
    return REFERENCE.sub(_spelled, message)


def _spelled(match: re.Match[str]) -> str:
    """Returns what the command line has for a reference."""
    text, name, value, word, command = match.groups()
    if text:
        return TEXTS[text]
    if command:
        return command
    if word:
        return _kebab(word)
    if name.isupper():  # an environment variable
        return f"{name}={value}" if value else name
    option = f"--{OPTIONS.get(name) or _kebab(name)}"
    return option if value in ("", "True") else option + " " + value.strip('"')


def _kebab(name: str) -> str:
    return name.replace("_", "-")
