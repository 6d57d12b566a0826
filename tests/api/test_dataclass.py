"""odt's frozen dataclasses behave as those of the standard library."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any

import numpy as np
import pytest

import odt.dataclass as ours
from odt.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Ours:
    d: float = field(default=0.5, compare=False, kw_only=True)
    a: int
    b: str = "b"
    c: list[int] = field(default_factory=list, hash=False)
    e: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "e", self.a + 1)


@dataclasses.dataclass(frozen=True, slots=True)
class Standard:
    d: float = field(default=0.5, compare=False, kw_only=True)
    a: int
    b: str = "b"
    c: list[int] = field(default_factory=list, hash=False)
    e: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "e", self.a + 1)


@dataclass(frozen=True, slots=True)
class Positional:
    """All parameters by position, as most classes have them."""

    a: Any
    b: Any
    c: int = 3
    d: str = "d"


@dataclass(frozen=True, slots=True)
class Empty:
    """Without fields."""


USES: dict[str, Callable[[Any], object]] = {
    "defaults": lambda cls: asdict(cls(1)),
    "by position": lambda cls: asdict(cls(1, "x", [2])),
    "by name": lambda cls: asdict(cls(c=[3], d=1.5, a=1)),
    "replace": lambda cls: asdict(replace(cls(1, "x", d=2.5), a=5)),
    "fields": lambda cls: [(f.name, f.type) for f in fields(cls)],
    "signature": lambda cls: str(inspect.signature(cls)).replace(" -> None", ""),
    "repr": lambda cls: repr(cls(1, "x")).replace(cls.__name__, ""),
    "equal": lambda cls: [cls(1) == cls(1, d=9.0), cls(1) == cls(2), cls(1) == 1],
    "hash": lambda cls: [hash(cls(1)) == hash(cls(1, c=[1])), hash(cls(1)) == hash(cls(2))],
    "pickle": lambda cls: asdict(pickle.loads(pickle.dumps(cls(1, "x")))),
    "deepcopy": lambda cls: copy.deepcopy(cls(1, "x")) == cls(1, "x"),
    "factory": lambda cls: cls(1).c is cls(1).c,
    "slots": lambda cls: hasattr(cls(1), "__dict__"),
}


@pytest.mark.parametrize("use", USES)
def test_results_are_those_of_the_standard_decorator(use: str) -> None:
    assert USES[use](Ours) == USES[use](Standard)


def test_a_plain_class_has_the_standard_fields_when_they_are_read() -> None:
    class Derived(Positional):
        pass

    @dataclass(frozen=True, slots=True)
    class More(Positional):
        e: str = "e"

    members = [("a", Any), ("b", Any), ("c", int, 3), ("d", str, "d")]
    standard = dataclasses.make_dataclass("Positional", members)  # type: ignore[arg-type]
    assert list(map(repr, fields(Derived))) == list(map(repr, fields(standard)))
    assert fields(Positional) == fields(Derived)
    assert asdict(More(1, 2, e="x")) == {"a": 1, "b": 2, "c": 3, "d": "d", "e": "x"}
    assert Positional.__match_args__ == ("a", "b", "c", "d")


@dataclass(frozen=True, slots=True)
class Made:
    """With a value that is made for each instance, as rows of the index of operators have."""

    a: int
    b: list[int] = field(default_factory=list, repr=False)
    c: int = field(default=3, compare=False)


def test_values_are_made_for_each_instance() -> None:
    assert Made(1).b is not Made(1).b
    assert Made(1, c=4) == Made(a=1, b=[])
    assert [f.repr for f in fields(Made)] == [True, False, True]
    assert [f.default_factory for f in fields(Made)][1] is list
    for args, kwargs in (((), {}), ((), {"b": []}), ((1, [], 3, 4), {}), ((1,), {"z": 1})):
        with pytest.raises(TypeError):
            Made(*args, **kwargs)


@pytest.mark.parametrize("default", [[], {}, set()])
def test_mutable_defaults_are_refused(default: object) -> None:
    with pytest.raises(ValueError, match="mutable default"):

        @dataclass(frozen=True, slots=True)
        class Shared:
            values: object = default


WRONG: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "missing": ((), {}, "missing a required argument: 'a'"),
    "unknown": ((1,), {"z": 1}, "got an unexpected keyword argument 'z'"),
    "twice": ((1,), {"a": 1}, "multiple values for argument 'a'"),
    "too many": ((1, "x", [], 3), {}, "too many positional arguments"),
    "not an argument": ((1,), {"e": 3}, "got an unexpected keyword argument 'e'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_type_errors(case: str) -> None:
    args, kwargs, message = WRONG[case]
    with pytest.raises(TypeError, match=message):
        Ours(*args, **kwargs)
    with pytest.raises(TypeError):
        Standard(*args, **kwargs)


def test_instances_are_frozen() -> None:
    ours: Any = Ours(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'a'"):
        ours.a = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'a'"):
        del ours.a


def test_a_class_may_have_no_fields() -> None:
    assert Empty() == Empty()
    assert hash(Empty()) == hash(Empty())
    assert repr(Empty()) == "Empty()"


ARRAY = np.arange(3)
CALLS: list[tuple[tuple[Any, ...], dict[str, Any], tuple[Any, ...]]] = [
    ((1, 2), {}, (1, 2, 3, "d")),
    ((1, 2, 4), {}, (1, 2, 4, "d")),
    ((1, 2), {"d": "x"}, (1, 2, 3, "x")),
    ((1,), {"b": ARRAY}, (1, ARRAY, 3, "d")),
    ((), {"d": "x", "b": 2, "a": ARRAY}, (ARRAY, 2, 3, "x")),
]


@pytest.mark.parametrize(("args", "kwargs", "values"), CALLS)
def test_arguments_and_defaults_have_their_places(
    args: tuple[Any, ...], kwargs: dict[str, Any], values: tuple[Any, ...]
) -> None:
    result = Positional(*args, **kwargs)
    assert all(
        value is expected
        for value, expected in zip((result.a, result.b, result.c, result.d), values, strict=True)
    )


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((1,), {}),
        ((1,), {"c": 4}),
        ((1, 2), {"z": 1}),
        ((1, 2), {"b": 2}),
        ((1, 2, 3, 4, 5), {}),
        ((), {"b": 1}),
    ],
)
def test_other_arguments_are_type_errors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Positional(*args, **kwargs)


@dataclass(frozen=True, slots=True)
class Frequent:
    """A class of which many instances are made."""

    a: Any
    b: int = 3
    c: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", self.b + 1)


def test_the_init_of_a_frequent_class_does_what_the_shared_one_did() -> None:
    shared = Frequent.__init__
    before = Frequent(1), Frequent(1, b=2), Frequent(b=2, a=ARRAY)
    for k in range(ours.MANY):
        Frequent(k)
    assert Frequent.__init__ is not shared
    after = Frequent(1), Frequent(1, b=2), Frequent(b=2, a=ARRAY)
    for old, new in zip(before, after, strict=True):
        assert old.a is new.a
        assert (old.b, old.c) == (new.b, new.c)
    assert before[0] == after[0]
    for args, kwargs in (((), {}), ((1, 2, 3), {}), ((1,), {"z": 1}), ((1,), {"a": 1})):
        with pytest.raises(TypeError):
            Frequent(*args, **kwargs)
    last: Any = after[0]
    with pytest.raises(FrozenInstanceError):
        last.a = 2


@pytest.mark.parametrize(
    ("old", "changes"),
    [
        (Ours(1, "x", d=2.5), {"a": 5}),
        (Standard(1), {"b": "y"}),
        (Positional(1, ARRAY), {"d": "x", "a": 2}),
        (Frequent(1), {"b": 7}),
    ],
)
def test_replace_does_what_the_standard_one_does(old: Any, changes: dict[str, Any]) -> None:
    result, expected = ours.replace(old, **changes), replace(old, **changes)
    assert type(result) is type(expected)
    assert all(getattr(result, f.name) is getattr(expected, f.name) for f in fields(old))
    with pytest.raises(TypeError):
        ours.replace(old, z=1)


def test_replace_refuses_fields_that_are_computed() -> None:
    # A TypeError from Python 3.13 on.
    with pytest.raises((TypeError, ValueError), match="field c is declared with init=False"):
        ours.replace(Frequent(1), c=1)


def test_a_member_that_the_module_needs_itself_is_refused() -> None:
    with pytest.raises(AssertionError, match="Sound has a member"):

        @dataclass(frozen=True, slots=True)
        class Sound:
            rate: int

            def _arguments(self) -> None: ...
