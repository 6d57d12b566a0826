"""Options of the command line that are made from the rows in core/options."""

from collections.abc import Mapping
from typing import Any

import click

from odt.cli.options import types
from odt.cli.options.sections import Decorator, combine, option
from odt.cli.output.spelling import spell
from odt.core.options.option import File, Form, Kind, Number, Option, Switch, Whole, Word
from odt.kernels.registry import METRICS

# Types of Click by the forms of values.
FORMS: Mapping[str, click.ParamType[Any]] = {
    "class weight": types.ClassWeights(),
    "duration": types.Duration(),
    "input shape": types.InputShape(),
    "interval": types.Interval(),
    "metric": types.MetricWord(METRICS, also=("accuracy",)),
    "number": click.FLOAT,
    "property": types.Property(),
    "size": types.Size(),
    "text": click.STRING,
}


def row_options(rows: Mapping[str, Option], *names: str) -> Decorator:
    """The options of rows, in this order; one that is left out is None.

    Args:
        rows: the rows by name.
        names: names of the rows to take; all if left out.
    """
    return combine(*(_option(rows[name], None) for name in names or rows))


def keyword_options(rows: Mapping[str, Option], *names: str) -> Decorator:
    """The options of rows; one that is left out has the default of its row."""
    chosen = [rows[name] for name in names or rows]
    defaults = [row.default if row.of_train is None else row.of_train for row in chosen]
    return combine(*map(_option, chosen, defaults))


def _option(row: Option, default: Any) -> Decorator:
    attributes: dict[str, Any] = {"help": spell(row.help), "common": row.common}
    flags = row.flags
    if isinstance(row.kind, Switch):
        attributes |= {"is_flag": True, "default": default}
        flags = tuple(f"{flag}/--no-{flag[2:]}" if row.kind.off else flag for flag in flags)
    else:
        attributes["type"] = click_type(row.kind)
        attributes |= {} if default is None else {"default": default, "show_default": True}
    if row.metavar:
        attributes["metavar"] = row.metavar
    if row.shown_default:
        attributes["show_default"] = spell(row.shown_default)
    if isinstance(row.kind, Word) and row.kind.implied:
        attributes |= {"is_flag": False, "flag_value": row.kind.implied}
    if isinstance(row.kind, Form) and row.kind.several:
        collect = tuple if row.kind.several == "list" else dict
        attributes |= {"multiple": True, "default": None, "show_default": False}
        attributes["callback"] = lambda ctx, param, value: collect(value) or row.default
    return option(row.group, *flags, row.name, **attributes)


def click_type(kind: Kind) -> click.ParamType[Any]:
    """The type of Click for a kind of values that are given as text."""
    if isinstance(kind, Number):
        least, most = kind.least, kind.most
        return click.FloatRange(least, most, kind.open_least, kind.open_most)
    if isinstance(kind, Whole):
        return click.IntRange(kind.least, kind.most)
    if isinstance(kind, File):
        return types.OutputPath() if kind.written else click.Path()
    if isinstance(kind, Form):
        return FORMS[kind.name]
    assert not isinstance(kind, Switch), "a switch has no value"
    return click.Choice(tuple(kind.words))
