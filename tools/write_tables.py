"""Writes tables of options, losses, optimizers, schedules, metrics and formats into the pages.

python tools/write_tables.py

Each is the first table below its heading. A test compares the pages with the rows.
"""

import importlib
import re
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path

from list_operators import source
from write_optimizer_classes import defaults, documentation, summary

from odt.cli.output.spelling import spell
from odt.core.model.training_info import TrainingInfo
from odt.core.options.federation_options import FEDERATION_OPTIONS
from odt.core.options.fit_options import FIT_OPTIONS
from odt.core.options.model_options import MODEL_OPTIONS
from odt.core.options.option import (
    ByOutput,
    ByPattern,
    File,
    Form,
    Number,
    Option,
    RowName,
    Switch,
    Whole,
    Word,
)
from odt.core.options.personalize_options import PERSONALIZE_OPTIONS
from odt.core.options.schedule_options import DIVISION_OPTIONS
from odt.core.options.session_options import SESSION_OPTIONS
from odt.core.options.training_options import RECIPE_OPTIONS, SELECTION_OPTIONS, STEP_OPTIONS
from odt.datasets.open_source import SOURCE_FORMATS
from odt.kernels.registry import LOSSES, METRICS, OPTIMIZERS
from odt.kernels.rows.scheduledef import Schedule
from odt.kernels.rows.schedules import SCHEDULES

DOCS = Path(__file__).parents[1] / "docs"
# Option that names a row → section with the rows.
TITLES = {
    "loss": "Losses",
    "optimizer": "Optimizers",
    "schedule": "Learning rate schedules",
}


def losses() -> Iterable[tuple[str, ...]]:
    """A line for each row of kernels/losses."""
    yield (
        *("`--loss`", "in Python", "targets of a sample", "loss of a sample"),
        *("hyper-parameters with defaults", "default if the model ends in", "source"),
    )
    for row in LOSSES.values():
        attrs = row.op.attrs({}, {})
        values = (f"{h.name} {_value(getattr(attrs, h.name))}" for h in row.hyper_parameters)
        origin = source(importlib.import_module(f"odt.kernels.losses.{row.name}").__doc__ or "")
        yield (
            *(option(row.name), f"`odt.{row.class_name}`", row.expects, row.formula),
            *(", ".join(values), row.default_for, origin),
        )


def optimizers() -> Iterable[tuple[str, ...]]:
    """A line for each row of kernels/optimizers."""
    yield (
        *("`--optimizer`", "in Python", "update rule", "`--learning-rate`"),
        *("hyper-parameters with defaults", "source"),
    )
    for rule in OPTIMIZERS.values():
        values = ", ".join(f"{h.name} {_value(value)}" for h, value in defaults(rule).items())
        update = summary(rule).removesuffix(".")
        origin = source(documentation(rule))
        rate = rule.learning_rate if rule.onert is None else TrainingInfo().learning_rate
        name = f"`odt.{rule.class_name}`"
        yield option(rule.name), name, update, _value(rate), values, origin


def schedules() -> Iterable[tuple[str, ...]]:
    """A line for each class in kernels/rows/schedules.py."""
    yield "`--schedule`", "in Python", "learning rate of a step", "options with defaults"
    common = {f.name for f in fields(Schedule)}
    for kind in SCHEDULES.values():
        names = {f.name: f.default for f in fields(kind) if f.name not in common}
        values = ", ".join(f"{option(name)} {str(value).lower()}" for name, value in names.items())
        formula = kind.formula
        for name in sorted(names, key=len, reverse=True):
            formula = formula.replace(name, option(name))
        yield option(kind.word), f"`odt.{kind.__name__}`", formula, values


def _value(value: float | bool) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else f"{value:g}"


def metrics() -> Iterable[tuple[str, ...]]:
    """A line for each row of kernels/metrics."""
    yield "`--metric`", "value", "targets", "further names", "source"
    for row in METRICS.values():
        origin = source(importlib.import_module(f"odt.kernels.metrics.{row.name}").__doc__ or "")
        words = ", ".join(f"`{option(word)}`" for word in row.words)
        yield option(row.name), row.formula, "; ".join(row.fits), words, origin


def formats() -> Iterable[tuple[str, ...]]:
    """A line for each row of src/odt/datasets/formats."""
    yield "`--format`", "contents", "file names"
    for row in SOURCE_FORMATS.values():
        yield option(row.name), row.contents, ", ".join(f"`{s}`" for s in row.suffixes)


def step_options() -> Iterable[tuple[str, ...]]:
    """A line for each option of the steps of training."""
    return _options(STEP_OPTIONS.values())


def recipe_options() -> Iterable[tuple[str, ...]]:
    """A line for each other option of a recipe."""
    others = (row for name, row in RECIPE_OPTIONS.items() if name not in STEP_OPTIONS)
    return _options((*others, *DIVISION_OPTIONS.values(), *SELECTION_OPTIONS.values()))


def fit_options() -> Iterable[tuple[str, ...]]:
    """A line for each row of core/options/fit_options.py."""
    return _options(FIT_OPTIONS.values())


def session_options() -> Iterable[tuple[str, ...]]:
    """A line for each row of core/options/session_options.py."""
    return _options(SESSION_OPTIONS.values())


def federation_options() -> Iterable[tuple[str, ...]]:
    """A line for each row of core/options/federation_options.py."""
    return _options(FEDERATION_OPTIONS.values())


def personalize_options() -> Iterable[tuple[str, ...]]:
    """A line for each row of core/options/personalize_options.py."""
    return _options(PERSONALIZE_OPTIONS.values())


def model_options() -> Iterable[tuple[str, ...]]:
    """A line for each row of core/options/model_options.py."""
    return _options(MODEL_OPTIONS.values())


def _options(rows: Iterable[Option]) -> Iterable[tuple[str, ...]]:
    """A line for each option."""
    yield "option", "in Python", "values", "default", "description", "stored in"
    for row in rows:
        flags = ", ".join(f"`{flag}`" for flag in row.flags)
        yield flags, f"`{row.name}`", _values(row), _default(row), spell(row.help), row.stored


def _default(row: Option) -> str:
    """The default of an option; empty for none, or if its description has it."""
    if row.shown_default or row.default in (None, ()):
        return spell(row.shown_default or "")
    text = row.default if isinstance(row.default, str) else _value(row.default)
    if isinstance(row.kind, Word | RowName):
        text = option(text)
    if row.clients is not None:
        text += f"; {row.clients} for clients of federations"
    return text if row.of_train is None else f"{row.of_train}; in Python {text}"


def _values(row: Option) -> str:
    """The values of an option."""
    text = ""
    match row.kind:
        case Number(rule=rule):
            text = rule
        case Whole(least, None):
            text = f"a whole number of at least {least}"
        case Whole(least, most):
            text = f"a whole number from {least} to {most:,}"
        case Switch():
            text = "a switch"
        case File():
            text = "path of a file"
        case Form(values=values):
            text = values
        case Word(words):
            text = ", ".join(map(option, words))
        case RowName():
            title = TITLES[row.name]
            text = f"see [{title}](#{title.lower().replace(' ', '-')})"
        case ByOutput(_, word):
            text = f"OUTPUT={word}"
        case ByPattern(numbers, word, has_default):
            glob = "[GLOB=]" if has_default else "GLOB="
            text = f"{glob}{word.upper()}: {numbers.rule}"
    return text


TABLES: dict[tuple[str, str], Callable[[], Iterable[tuple[str, ...]]]] = {
    ("reference.md", "Options of training steps"): step_options,
    ("reference.md", "Options of the recipe"): recipe_options,
    ("reference.md", "Options of a run"): fit_options,
    ("reference.md", "Options of a trainer"): session_options,
    ("reference.md", "Options of a model file"): model_options,
    ("reference.md", "Options of a federation"): federation_options,
    ("reference.md", "Options of a personalization"): personalize_options,
    ("reference.md", "Losses"): losses,
    ("reference.md", "Optimizers"): optimizers,
    ("reference.md", "Learning rate schedules"): schedules,
    ("reference.md", "Metrics"): metrics,
    ("data-sources.md", "Formats"): formats,
}


def option(name: str) -> str:
    """A name as the command line spells it."""
    return name.replace("_", "-")


def pages() -> dict[Path, str]:
    """Returns the pages, with tables generated from the rows."""
    texts: dict[Path, str] = {}
    for (name, heading), rows in TABLES.items():
        path = DOCS / name
        text = texts.get(path) or path.read_text(encoding="utf-8")
        table = re.search(rf"\n##+ {heading}\n(?:(?!\n#).)*?\n((?:\|[^\n]*\n)+)", text, re.DOTALL)
        assert table, f"docs/{name} has no table below the heading {heading}"
        texts[path] = f"{text[: table.start(1)]}{markdown(rows())}{text[table.end(1) :]}"
    return texts


def markdown(rows: Iterable[tuple[str, ...]]) -> str:
    """A table; its first row is the head."""
    cells = [[cell.replace("|", r"\|") or "–" for cell in row] for row in rows]
    head, *body = [f"| {' | '.join(row)} |\n" for row in cells]
    return "".join([head, f"| {' | '.join(['---'] * len(cells[0]))} |\n", *body])


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
