"""Options of the command line that are made from the rows in core/options."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from functools import partial
from typing import Any, TypeVar

import click

from odt.cli.options import types
from odt.cli.options.sections import Decorator, combine, option
from odt.cli.output.spelling import spell
from odt.core.options.option import (
    ByOutput,
    ByPattern,
    File,
    Form,
    Kind,
    Number,
    Option,
    RowName,
    Switch,
    Whole,
    Word,
)
from odt.core.options.session_options import BOX_METRICS
from odt.core.options.training_options import RECIPE_OPTIONS
from odt.kernels.registry import LOSSES, METRICS
from odt.kernels.rows.row_index import SCHEDULES

T = TypeVar("T")
DECLARED = "odt.cli"  # key of a field's metadata: its option

# Types of Click by the forms of values.
FORMS: Mapping[str, click.ParamType[Any]] = {
    "augmentations": types.Augmentations(),
    "class weight": types.ClassWeights(),
    "duration": types.Duration(),
    "input shape": types.InputShape(),
    "input value": types.InputValue(),
    "interval": types.Interval(),
    "metric": types.MetricWord(METRICS, also=("accuracy", *BOX_METRICS)),
    "number": click.FLOAT,
    "property": types.Property(),
    "size": types.Size(),
    "text": click.STRING,
}


def row_options(rows: Mapping[str, Option], *names: str) -> Decorator:
    """Returns the options of rows, in this order; an option that is left out is None.

    Args:
        rows: the rows by name.
        names: names of the rows to take; all if left out.
    """
    return combine(*(_option(rows[name], None) for name in names or rows))


def recipe_options(*names: str) -> Decorator:
    """Returns the options of the recipe with these names, in this order, with the default None."""
    return row_options(RECIPE_OPTIONS, *names)


def keyword_options(rows: Mapping[str, Option], *names: str) -> Decorator:
    """Returns the options of rows, with the defaults of the rows; arguments as of `row_options`."""
    chosen = [rows[name] for name in names or rows]
    defaults = [row.default if row.of_train is None else row.of_train for row in chosen]
    return combine(*map(_option, chosen, defaults))


def _option(row: Option, default: Any) -> Decorator:
    """Returns the option of a row.

    Args:
        row: the row.
        default: value if the option is left out.
    """
    attributes: dict[str, object] = {"help": spell(row.help), "common": row.common}
    flags = row.flags
    collect = _collection(row.kind)
    if isinstance(row.kind, Switch):
        attributes |= {"is_flag": True, "default": default}
        flags = tuple(f"{flag}/--no-{flag[2:]}" if row.kind.off else flag for flag in flags)
    else:
        attributes["type"] = click_type(row.kind)
    if collect is not None:
        attributes["multiple"] = True
        has_names = collect is dict or isinstance(row.kind, ByOutput)
        attributes["callback"] = partial(_collected, collect, default, has_names)
    elif default is not None and not isinstance(row.kind, Switch):
        attributes |= {"default": default, "show_default": True}
    if isinstance(row.kind, Word) and row.kind.implied:
        attributes |= {"is_flag": False, "flag_value": row.kind.implied}
    if row.metavar:
        attributes["metavar"] = row.metavar
    if row.shown_default:
        attributes["show_default"] = spell(row.shown_default)
    return option(row.group, *flags, row.name, **attributes)


def _collected(
    collect: type[tuple[Any, ...]] | type[dict[Any, Any]],
    default: Any,
    has_names: bool,
    ctx: click.Context,
    param: click.Parameter,
    values: Sequence[Any],
) -> Any:
    """Returns the values of a repeatable option in a collection; the default for none.

    Raises:
        click.BadParameter: if a name is given twice in pairs of a name and a value.
    """
    if has_names:
        names = [name for name, _ in values]
        repeated = [name for name in names if names.count(name) > 1]
        if repeated:
            text = f'must be given once for each name, but got "{repeated[0]}" more than once.'
            raise click.BadParameter(text, ctx, param)
    return collect(values) or default


def _collection(kind: Kind) -> type[tuple[Any, ...]] | type[dict[Any, Any]] | None:
    """Returns the collection of a repeatable option's values; None for other options."""
    if isinstance(kind, ByOutput | ByPattern):
        return tuple
    if isinstance(kind, Form) and kind.several:
        return tuple if kind.several == "list" else dict
    return None


def click_type(kind: Kind) -> click.ParamType[Any]:
    """Returns the type of Click for a kind of values; of one value if the option is repeatable."""
    chosen: click.ParamType[Any]
    match kind:
        case Number(least=least, most=most, open_least=above, open_most=below):
            chosen = click.FloatRange(least, most, above, below)
        case Whole(least, most):
            chosen = click.IntRange(least, most)
        case Word(words, _, onert, first_zero):
            chosen = types.Word(words, onert, first_zero)
        case File(written):
            chosen = types.OutputPath() if written else click.Path()
        case Form(name):
            chosen = FORMS[name]
        case RowName(register, also, first_zero):
            if register is SCHEDULES:
                chosen = types.ScheduleText()
            else:
                text = types.LossText if register is LOSSES else types.Word
                chosen = text(register, first_zero=first_zero, also=also)
        case ByOutput(values, word):
            chosen = types.OfOutput(click_type(values), f"OUTPUT={word}")
        case ByPattern(numbers, word, has_default):
            most = numbers.most or math.inf
            chosen = types.GlobRate() if has_default else types.GlobValue(word, most)
        case Switch():
            raise AssertionError("a switch has no value")
    return chosen


def declare(section: str, *flags: str, **attributes: Any) -> Any:
    """Returns a field of a dataclass that is an option of the command line alone.

    Args:
        section: section of the help.
        flags: names of the option.
        attributes: other arguments of `click.option` and of Option.
    """
    default: Any = () if attributes.get("multiple") else None
    if attributes.get("is_flag"):
        default = False
    metadata = {DECLARED: (section, flags, attributes)}
    return field(default=attributes.get("default", default), metadata=metadata)


def declared_options(kind: type, *names: str) -> Decorator:
    """Returns the options that are declared as fields of a dataclass, in this order.

    Args:
        kind: the dataclass.
        names: names of the fields to take; all if left out.
    """
    declared = {f.name: f.metadata[DECLARED] for f in fields(kind) if DECLARED in f.metadata}
    options = []
    for name in names or declared:
        section, flags, attributes = declared[name]
        options.append(option(section, *flags, name, **attributes))
    return combine(*options)


def group(kind: type[T], values: Mapping[str, Any]) -> T:
    """Returns one group of the options that a command received.

    Args:
        kind: the dataclass of the group. What the command does not have keeps its default.
        values: what Click passes to the command.
    """
    names = (f.name for f in fields(kind))  # type: ignore[arg-type]  # a dataclass
    return kind(**{name: values[name] for name in names if name in values})


def keywords(options: Any) -> Mapping[str, Any]:
    """Returns a group of options as keyword arguments by name."""
    return {f.name: getattr(options, f.name) for f in fields(options)}
