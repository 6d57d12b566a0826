"""Keywords of a function that come from the rows of options."""

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from textwrap import fill
from typing import Any, TypeVar

from odt.core.options.option import Option

F = TypeVar("F", bound=Callable[..., Any])
WIDTH = 88  # of the lines of an argument without their indentation


def row_keywords(rows: Mapping[str, Option], types: type) -> Callable[[F], F]:
    """Lists the keywords of rows in the signature and the docstring of a method with `**steps`.

    Args:
        rows: rows of the keywords, all of which have the default None.
        types: TypedDict with the types of the keywords.
    """

    def decorate(method: F) -> F:
        shown = signature(method)
        keywords = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, annotation in types.__annotations__.items()
        ]
        others = [p for p in shown.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
        before, line, after = (method.__doc__ or "").partition("**steps: ")
        assert line, "the docstring has no line for **steps"
        before, newline, indent = before.rpartition("\n")  # Python 3.13 removes indentation
        text = "\n".join(_argument(row, indent) for row in rows.values())
        method.__doc__ = before + newline + text + "\n" + after.partition("\n")[2]
        method.__signature__ = shown.replace(  # type: ignore[attr-defined]
            parameters=[*others, *keywords]
        )
        return method

    return decorate


def _argument(row: Option, indent: str) -> str:
    """The lines of an argument in a docstring."""
    default = f" Default: {row.shown_default}." if row.shown_default else ""
    text = f"{row.name}: {row.help}{default}"
    width = WIDTH + len(indent)
    return fill(text, width, initial_indent=indent, subsequent_indent=f"{indent}    ")
