"""Names that users of other frameworks try: errors say what odt has instead."""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from odt.arguments import unwrapped
from odt.errors import OptionError

F = TypeVar("F", bound=Callable[..., Any])


def known_arguments(*others: Callable[[], Callable[..., Any]], base: str = "") -> Callable[[F], F]:
    """Makes a function say what to write instead of an argument that it does not have.

    Args:
        others: return other functions that may have the argument, such as the constructor.
        base: base class of the function's class, whose table is searched first.
    """

    def decorate(function: F) -> F:
        names = frozenset(_arguments(function))

        @functools.wraps(function)
        def checked(*args: Any, **options: Any) -> Any:
            if not options.keys() <= names:
                check_arguments(options, function, *(other() for other in others), base=base)
            return function(*args, **options)

        return checked  # type: ignore[return-value]  # the same signature

    return decorate


def check_arguments(
    options: Mapping[str, Any],
    function: Callable[..., Any],
    *others: Callable[..., Any],
    further: Iterable[str] = (),
    base: str = "",
) -> None:
    """Raises OptionError with what to write instead of an argument that a function does not have.

    Args:
        options: arguments by name.
        function: the function.
        others: other functions that may have the argument.
        further: names of further arguments of the function.
        base: base class of the function's class, whose table is searched first.
    """
    names = (*_arguments(function), *further)
    if unknown := sorted(options.keys() - set(names)):
        raise unknown_argument(unknown[0], _shown(function), names, others, base)


def unknown_argument(
    name: str,
    where: str,
    names: Iterable[str],
    others: Iterable[Callable[..., Any]] = (),
    base: str = "",
) -> OptionError:
    """Returns the error of an argument that a function does not have.

    Args:
        name: the argument.
        where: the function, as users write it.
        names: arguments of the function.
        others: other functions that may have the argument.
        base: base class of the function's class, whose table is searched first.
    """
    import difflib

    from odt.habit_tables import ARGUMENTS, CLASS_ARGUMENTS

    remedy = CLASS_ARGUMENTS.get(base, {}).get(name) or ARGUMENTS.get(name, "")
    for other in others:
        if not remedy and name in _arguments(other):
            remedy = f"Pass it to {_shown(other)}."
    if not remedy:
        names = tuple(names)
        close = difflib.get_close_matches(name, names, 1)
        remedy = f"Did you mean {close[0]}?" if close else f"It has {', '.join(names) or 'none'}."
    return OptionError(name, f"is no argument of {where}", remedy=remedy)


def _arguments(function: Callable[..., Any]) -> tuple[str, ...]:
    """Returns the names of a function's arguments, without self.

    Reads them from its code, because `inspect` is slow to import.
    """
    if hasattr(function, "__signature__"):
        return tuple(name for name in function.__signature__.parameters if name != "self")
    code = unwrapped(function).__code__
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return tuple(name for name in names if name != "self")


def _shown(function: Callable[..., Any]) -> str:
    """Returns a function as users write it: odt.Trainer, Trainer.fit, odt.load_model."""
    owner, _, name = function.__qualname__.rpartition(".")
    if not owner:
        return f"odt.{name}"
    return f"odt.{owner}" if name == "__init__" else f"{owner}.{name}"


def missing_attribute(
    name: str, names: Callable[[], Iterable[str]], what: str = "module 'odt'", table: str = ""
) -> AttributeError:
    """Returns the error of an attribute that an object does not have.

    Args:
        name: the attribute.
        names: returns the attributes that the object has.
        what: the object as users know it.
        table: key of ATTRIBUTES; empty for the package.
    """
    text = f"{what} has no attribute {name!r}"
    if name.startswith("_"):  # of a protocol that the object does not have
        return AttributeError(text)
    import difflib

    from odt.habit_tables import ATTRIBUTES

    hint = ATTRIBUTES[table].get(name, "")
    if not hint:
        close = difflib.get_close_matches(name, [n for n in names() if n[0] != "_"], 1)
        hint = f"Did you mean {close[0]}?" if close else ""
    return AttributeError(f"{text}. {hint}" if hint else text)
