"""Checks the arguments of public functions by their annotations.

A wrong type is one line at the call instead of an exception of the code that meets it. Bounds of
numbers, words and the values of lists and mappings are checked by the code that reads them.
"""

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.kernels.rows.scalars import plain

F = TypeVar("F", bound=Callable[..., Any])
Test: TypeAlias = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Kind:
    """The values that an argument may have, according to its annotation.

    Attributes:
        rule: what they are, in words.
        tests: functions that tell whether a value fits; one of them must.
        optional: whether it may be None.
        switch: whether it is True or False.
    """

    rule: str
    tests: tuple[Test, ...]
    optional: bool = False
    switch: bool = False

    def checked(self, name: str, value: Any) -> Any:
        """Returns the value of an argument; raises OptionError if it is of another type."""
        if value is None and self.optional:
            return None
        if value is None or not any(fits(value) for fits in self.tests):
            is_shown = isinstance(value, int | float | str | None)
            raise OptionError(
                name, f"must be {self.rule}", repr(value) if is_shown else type(value).__name__
            )
        return bool(value) if self.switch else value


def checked_arguments(function: F) -> F:
    """Makes a function refuse arguments of another type than its annotations say.

    Scalars of NumPy and similar packages become numbers of Python: uint8(1) − 2 is 255.
    """
    code = unwrapped(function).__code__
    names = code.co_varnames[: code.co_argcount]
    kinds: dict[str, Kind] = {}

    @functools.wraps(function)
    def checked(*args: Any, **options: Any) -> Any:
        if not kinds:
            kinds.update((n, _kind(a)) for n, a in unwrapped(function).__annotations__.items())
        values = [
            kinds.get(name, ANY).checked(name, plain(value))
            for name, value in zip(names, args, strict=False)
        ]
        for name, value in options.items():
            options[name] = kinds.get(name, ANY).checked(name, plain(value))
        return function(*values, *args[len(values) :], **options)

    return checked  # type: ignore[return-value]  # the same signature


def unwrapped(function: Any) -> Any:
    """Returns a function without its decorators, as `inspect.unwrap`, which is slow to import."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def anything(value: Any) -> bool:
    """Whether a value may fit that the function itself checks: always."""
    return True


def is_switch(value: Any) -> bool:
    """Whether a value is True or False, or the number 1 or 0."""
    return isinstance(value, int) and value in (0, 1)


def is_path(value: Any) -> bool:
    """Whether a value is a path: text, or an object such as `pathlib.Path`."""
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else ""
    return isinstance(path, str) and path != "" and "\0" not in path


def is_text(value: Any) -> bool:
    """Whether a value is text."""
    return isinstance(value, str)


def is_mapping(value: Any) -> bool:
    """Whether a value is a mapping."""
    return isinstance(value, Mapping)


def is_pair(value: Any) -> bool:
    """Whether a value is a tuple of two values."""
    return isinstance(value, tuple) and len(value) == 2


def is_list_of(item: Kind, value: Any) -> bool:
    """Whether a value is a list, or another sequence, of values of a kind."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return is_list and all(any(fits(each) for fits in item.tests) for each in value)


ANY = Kind("given", (anything,), optional=True)
# Type of an argument → what a value is, in words, and its test.
RULES: dict[Any, tuple[str, Test]] = {
    bool: ("True or False", is_switch),
    int: ("a whole number", anything),
    float: ("a number", anything),
    str: ("a text", is_text),
    os.PathLike: ("a path", is_path),
    Callable: ("a function", callable),
    Mapping: ("a mapping", anything),
    dict: ("a mapping", is_mapping),
    tuple: ("a pair", is_pair),
    Sequence: ("a list", anything),
    Iterable: ("a list", anything),
}


def _kind(annotation: Any) -> Kind:
    """Returns the kind of an argument with an annotation."""
    is_union = get_origin(annotation) in (Union, UnionType)
    members = get_args(annotation) if is_union else (annotation,)
    types = [_type(member) for member in members if member is not NoneType]
    if os.PathLike in types:
        types.remove(str)
    if Any in types or isinstance(annotation, str):
        return ANY
    is_exact = len(members) == 1 or os.PathLike in types
    rules = dict(RULES.get(kind) or _of_class(kind, is_exact) for kind in types)
    for item in (get_args(m)[0] for m in members if get_origin(m) is Sequence):
        if any(get_origin(kind) is os.PathLike for kind in get_args(item)):
            del rules["a list"]
            rules["a list of paths"] = partial(is_list_of, _kind(item))
    return Kind(
        " or ".join(rules), tuple(rules.values()), NoneType in members, switch=types == [bool]
    )


def _type(member: Any) -> Any:
    """Returns the type of a member of a union; literals are text, whose words functions list."""
    origin = get_origin(member) or member
    return str if origin is Literal else origin


def _of_class(kind: Any, is_exact: bool) -> tuple[str, Test]:
    """Returns the rule of a class of odt; other types are checked by the functions.

    Args:
        kind: a type.
        is_exact: whether no function describes the values better, such as names of optimizers.
    """
    if not (isinstance(kind, type) and kind.__module__.startswith("odt.")):
        return "given", anything
    home = "odt.federated" if kind.__module__.startswith("odt.federated.") else "odt"
    test = (lambda value: isinstance(value, kind)) if is_exact else anything
    return f"an `{home}.{kind.__name__}`", test
