"""Options of the command line that are made from the rows in core/options."""

from collections.abc import Mapping
from typing import Any

import click

from odt.cli.options.sections import Decorator, combine, option
from odt.cli.output.spelling import spell
from odt.core.options.option import Kind, Number, Option, Switch, Whole


def row_options(rows: Mapping[str, Option]) -> Decorator:
    """The options of rows by name, in this order; one that is left out is None."""
    return combine(*(_option(name, row) for name, row in rows.items()))


def _option(name: str, row: Option) -> Decorator:
    attributes: dict[str, Any] = {"help": spell(row.help), "common": row.common}
    if isinstance(row.kind, Switch):
        attributes |= {"is_flag": True, "default": None}
    else:
        attributes["type"] = click_type(row.kind)
    if row.metavar:
        attributes["metavar"] = row.metavar
    if row.shown_default:
        attributes["show_default"] = spell(row.shown_default)
    return option(row.group, f"--{name.replace('_', '-')}", **attributes)


def click_type(kind: Kind) -> click.ParamType[Any]:
    """The type of Click for a kind of values that are given as text."""
    if isinstance(kind, Number):
        least, most = kind.least, kind.most
        return click.FloatRange(least, most, kind.open_least, kind.open_most)
    if isinstance(kind, Whole):
        return click.IntRange(kind.least, kind.most)
    assert not isinstance(kind, Switch), "a switch has no value"
    return click.Choice(tuple(kind.words))
