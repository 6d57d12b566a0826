"""A `@dataclass(frozen=True, slots=True)` that takes a tenth of the time of the standard one.

The standard decorator writes eight methods for each class and compiles them: 0.3 ms a class, which
was half the time of `import odt`. Here all classes share the methods, which read the names of
fields; everything else is the standard decorator's, which few classes need to run. Type checkers
see the standard one. An instance takes up to 1.5 µs more, so that a class of which many instances
are made gets an `__init__` of its own: a plan of 2,000 layers has 100,000 instances.
"""

from dataclasses import MISSING, Field, FrozenInstanceError, field, fields, is_dataclass
from dataclasses import dataclass as standard
from dataclasses import replace as standard_replace
from inspect import Parameter, Signature, get_annotations
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

__all__ = ["dataclass", "replace"]

REQUIRED: Any = field()  # stands for a field without a default
MANY = 200  # instances, after which a class gets an `__init__` of its own

_set = object.__setattr__


def _init(self: Any, /, *args: Any, **kwargs: Any) -> None:
    if not next(self._early, False):
        _write_init(type(self))
    values = args
    if kwargs or len(args) != self._positional:
        values = _with_defaults(self, args, kwargs)
    for store, value in zip(self._stores, values, strict=True):
        store(self, value)
    if hasattr(self, "__post_init__"):
        self.__post_init__()


def _write_init(cls: Any) -> None:
    """Gives a class an `__init__` of its own, which takes a third of the time of the shared one.

    Not to classes with factories or keyword-only parameters, of which few instances are made, nor
    to those of the API, which say what to write instead of a wrong argument.
    """
    cls._early = repeat(True)
    if cls._positional is None or cls._factories or hasattr(cls, "_refuse"):
        return
    names = [*cls._parameters]
    parameters = [f"{n}=_defaults[{n!r}]" if n in cls._defaults else n for n in names]
    lines = [f"def __init__({', '.join(['self', *parameters])}):"]
    lines += [f" _store_{name}(self, {name})" for name in names]
    lines += [" self.__post_init__()"] if hasattr(cls, "__post_init__") else [" pass"]
    stores = zip((f"_store_{name}" for name in names), cls._stores, strict=True)
    namespace = {"_defaults": cls._defaults, **dict(stores)}
    exec("\n".join(lines), namespace)
    cls.__init__ = namespace["__init__"]


def _with_defaults(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the values of all parameters of a call, in their order."""
    given, places = len(args), self._places
    values = [*args, *self._defaults_in_order[given:]]
    for name, value in kwargs.items():
        place = places.get(name, -1)
        if place < given:
            return _from_names(self, args, kwargs)
        values[place] = value
    for name, factory in self._factories.items():
        if values[places[name]] is MISSING:
            values[places[name]] = factory()
    # By identity: an array that is compared with MISSING has no truth value.
    is_missing = any(value is MISSING for value in values[given : self._required])
    if is_missing or len(values) != self._positional:
        return _from_names(self, args, kwargs)
    return values


def _from_names(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns what `_with_defaults` does, for any class, and for calls that are wrong."""
    # With too many arguments, the counts below differ.
    arguments = dict(zip(self.__match_args__, args, strict=False)) | kwargs
    values = self._defaults | arguments
    for name, factory in self._factories.items():
        if name not in arguments:
            values[name] = factory()
    unknown = kwargs.keys() - self._parameters
    if unknown and hasattr(self, "_refuse"):  # a class of the API, which says what to write
        raise self._refuse(min(unknown))
    if values.keys() != self._parameters or len(arguments) != len(args) + len(kwargs):
        self.__signature__.bind(*args, **kwargs)  # raises a TypeError with the reason
    return map(values.__getitem__, self._parameters)


def _repr(self: Any) -> str:
    shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: Any) -> Any:
    if other is self:
        return True
    if type(other) is not type(self):
        return NotImplemented
    return self._compared(self) == self._compared(other)


def _hash(self: Any) -> int:
    return hash(self._hashed(self))


def _setattr(self: Any, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> dict[str, Any]:
    return {f.name: getattr(self, f.name) for f in fields(self)}


def _setstate(self: Any, state: dict[str, Any]) -> None:
    for name, value in state.items():
        _set(self, name, value)


def _replace(obj: Any, /, **changes: Any) -> Any:
    """Does what the standard `replace` does, in two thirds of the time."""
    cls = type(obj)
    members = vars(cls)
    is_usual = members.get("_positional") is not None and members["_arguments"] is not None
    if not is_usual or not cls._parameters >= changes.keys():
        return standard_replace(obj, **changes)
    values = [*cls._arguments(obj)]
    for name, value in changes.items():
        values[cls._places[name]] = value
    return cls(*values)


class _Factory:
    """A default value that is made for each instance."""

    def __repr__(self) -> str:
        return "<factory>"


class _SignatureOf:
    """The parameters of a class, for `help` and for error messages of calls."""

    def __get__(self, instance: object, cls: Any) -> Signature:
        parameters = (_parameter(f) for f in fields(cls) if f.init)
        return Signature(sorted(parameters, key=lambda p: p.kind))


def _parameter(f: "Field[Any]") -> Parameter:
    kind = Parameter.KEYWORD_ONLY if f.kw_only else Parameter.POSITIONAL_OR_KEYWORD
    default = f.default if f.default_factory is MISSING else _Factory()
    if default is MISSING:
        default = Parameter.empty
    return Parameter(f.name, kind, default=default, annotation=f.type)


METHODS = {
    "__init__": _init,
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
    "__getstate__": _getstate,  # for copies and pickles
    "__setstate__": _setstate,
    "__replace__": _replace,  # for copies from Python 3.13 on
    "__signature__": _SignatureOf(),
}


def _getter(names: list[str]) -> "attrgetter[Any]":
    """Returns a function that reads attributes; without names, one that is equal in a class."""
    return attrgetter(*names or ["__class__"])


class _WhenRead:
    """What the standard decorator leaves in a class: few classes need it, and half of their time.

    The standard decorator runs on a class of the same fields.
    """

    def __set_name__(self, owner: Any, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, cls: Any) -> Any:
        owner = next(each for each in cls.__mro__ if vars(each).get(self.name) is self)
        namespace = {name: f for name, f in owner._members.items() if f is not REQUIRED}
        namespace |= {name: getattr(owner, name) for name in ("__doc__", "__module__")}
        namespace["__annotations__"] = get_annotations(owner)
        like: Any = type(owner.__name__, (), namespace)
        standard(init=False, repr=False, eq=False)(like)
        setattr(owner, self.name, getattr(like, self.name))
        return getattr(owner, self.name)


def _own_members(cls: Any) -> "dict[str, Field[Any]] | None":
    """Returns the fields of a class; None for one that the standard decorator must look at first.

    It looks at classes with bases, class variables, keyword-only fields and mutable defaults.
    """
    annotations = get_annotations(cls)
    is_alone = cls.__bases__ == (object,)
    if not is_alone or any(getattr(a, "__origin__", 0) is ClassVar for a in annotations.values()):
        return None
    given = ((name, vars(cls).get(name, REQUIRED)) for name in annotations)
    members = {n: v if isinstance(v, Field) else field(default=v) for n, v in given}
    is_usual = not any(f.kw_only is True or f.default.__hash__ is None for f in members.values())
    return members if is_usual else None


def _standard_members(cls: Any) -> "dict[str, Field[Any]]":
    """Returns the fields of a class after the standard decorator."""
    # Subclasses of a standard frozen dataclass are frozen in the standard way.
    bases: Any = filter(is_dataclass, cls.__mro__[1:])
    inherits_frozen = any(base.__dataclass_params__.frozen for base in bases)
    standard(init=False, repr=False, eq=False, frozen=inherits_frozen)(cls)
    return {f.name: f for f in fields(cls)}


def _with_slots(cls: Any) -> Any:
    """Returns a class again, with slots and the shared methods.

    The standard `slots=True` makes the class again, too. Methods that the new class begins with
    cost nothing; to set them later takes 10 µs.
    """
    own_members = _own_members(cls)
    members = _standard_members(cls) if own_members is None else own_members
    parameters = [name for name, f in members.items() if f.init]
    compared = [name for name, f in members.items() if f.compare]
    hashed = [n for n, f in members.items() if (f.compare if f.hash is None else f.hash)]
    defaults = {name: f.default for name, f in members.items() if f.default is not MISSING}
    factories = {n: f.default_factory for n, f in members.items()}
    factories = {name: make for name, make in factories.items() if make is not MISSING}
    if own_members is None:
        left = {"__match_args__": cls.__match_args__}
    else:
        left = {
            "__match_args__": (*parameters,),
            "__dataclass_fields__": _WhenRead(),
            "__dataclass_params__": _WhenRead(),
        }
    by_position = left["__match_args__"] == (*parameters,)
    places = {name: place for place, name in enumerate(parameters)}
    inherited = {n for base in cls.__mro__[1:] for n in getattr(base, "__slots__", ())}
    own = {
        "_parameters": places.keys(),
        "_positional": len(parameters) if by_position else None,
        "_places": places,
        # Parameters that a call may leave out have their default; factories are called later.
        "_required": len([n for n in parameters if n not in defaults and n not in factories]),
        "_defaults_in_order": tuple(defaults.get(name, MISSING) for name in parameters),
        "_defaults": defaults,
        "_members": members,
        "_factories": factories,
        "_early": repeat(True, MANY),
        "_arguments": attrgetter(*parameters) if len(parameters) > 1 else None,
        "_compared": _getter(compared),
        "_hashed": _getter(hashed),
    }
    assert not own.keys() & vars(cls).keys(), f"{cls.__name__} has a member that this module needs"
    namespace = {**METHODS, **vars(cls), "__qualname__": cls.__qualname__, **left, **own}
    # Not the defaults, which the standard one leaves in the class, nor what slots replace.
    for name in (*members, "__dict__", "__weakref__"):
        namespace.pop(name, None)
    namespace["__slots__"] = tuple(name for name in members if name not in inherited)
    new_class = type(cls)(cls.__name__, cls.__bases__, namespace)
    # Setters of the slots, which work in spite of `__setattr__`.
    new_class._stores = tuple(getattr(new_class, name).__set__ for name in parameters)
    return new_class


if TYPE_CHECKING:
    from dataclasses import dataclass, replace
else:
    replace = _replace

    def dataclass(*, frozen, slots):
        """Returns the decorator."""
        assert frozen, "all data classes of odt are frozen"
        assert slots, "all data classes of odt have slots"

        def decorate(cls):
            cls.__doc__ = cls.__doc__ or cls.__name__  # the standard one would write a signature
            return _with_slots(cls)

        return decorate
