"""The machine for which steps are planned and calls are bound: this one, or another."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

from odt.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TargetDef:
    """A row: a kind of machine for which C programs are written.

    Attributes:
        about: what it is, for help.
    """

    about: str


TARGETS = MappingProxyType(
    {
        "generic": TargetDef("any processor for which gcc or clang compiles"),
        "wasm": TargetDef("a WebAssembly module for browsers and node, with JavaScript"),
    }
)


@dataclass(frozen=True, slots=True)
class Target:
    """A machine that will run a step.

    Attributes:
        kernels: instruction set of its compiled kernels.
        limits: limits of src/abi.h with which its kernels are compiled, by name.
        cores: number of cores that a step may use.
    """

    kernels: str
    limits: Mapping[str, int]
    cores: int = 1


_target: ContextVar[Target | None] = ContextVar("target", default=None)


def other_target() -> Target | None:
    """Returns the machine for which this thread plans; None for this machine."""
    return _target.get()


@contextmanager
def planning_for(target: Target) -> Iterator[None]:
    """Plans and binds for another machine in a `with` block; such calls cannot run on this one."""
    token = _target.set(target)
    try:
        yield
    finally:
        _target.reset(token)
