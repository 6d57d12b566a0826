"""Values of options for tests of their rows."""

from typing import Any

from odt.core.options.option import Form, Number, Option, Whole, Word


def kind_of(row: Option) -> object:
    """The kind of a row's values in Python."""
    return row.kind.kind if isinstance(row.kind, Form) else row.kind


def other(row: Option) -> Any:
    """A valid value that is not the default."""
    match kind_of(row):
        case Number(least=least, most=most):
            return (least + (least + 1 if most is None else most)) / 2
        case Whole(least=least):
            return least + 1
        case Word(words=words):
            return [*words][-1]
    return not row.default


def invalid(row: Option) -> Any:
    """A value that is out of bounds."""
    kind = kind_of(row)
    if isinstance(kind, Number | Whole):
        return kind.least - 1
    return "elsewhere"
