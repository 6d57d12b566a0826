"""The machine for which steps are planned and calls are bound: this one, or another."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from types import MappingProxyType

from odt.dataclass import dataclass

# Limits with which the frames of kernels fit the stack of a microcontroller.
SMALL = MappingProxyType(
    {
        "MAX_LANES": 4,
        "PIXELS": 16,
        "LISTED_VALUES": 64,
        "STRIP_ROWS": 8,
        "MAX_WALKS": 1,
        "TILES": 4,
        "FILTER_TILES": 4,
        "PANEL_PARTS": 1,
        "DEPTH_BLOCK": 64,
        "ROW_BLOCK": 16,
        "RECURRENT_PARTS": 1,
        "COPIES": 32,
        "TILE_BYTES": 640,
    }
)


@dataclass(frozen=True, slots=True)
class TargetDef:
    """A row: a kind of machine for which C programs are written.

    Attributes:
        about: what it is, for help.
        limits: limits of src/abi.h with which its kernels are compiled, where they differ.
        optimization: option of the C compiler.
        has_stack_bounds: whether native/stack.py has the stack of its kernels.
    """

    about: str
    limits: Mapping[str, int] = field(default_factory=dict)
    optimization: str = "-O3"
    has_stack_bounds: bool = False


TARGETS = MappingProxyType(
    {
        "generic": TargetDef("any processor for which gcc or clang compiles"),
        "wasm": TargetDef("a WebAssembly module for browsers and node, with JavaScript"),
        "microcontroller": TargetDef(
            "processors with little memory, such as Cortex-M: kernels take little stack",
            SMALL,
            "-Os",
            True,
        ),
    }
)
BASE = "base"  # the instruction set that every compiler has


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


def target_of(name: str, limits: Mapping[str, int]) -> Target:
    """Returns one core of a machine of TARGETS, with the base instruction set.

    Args:
        name: its name.
        limits: limits of src/abi.h.
    """
    return Target(BASE, {**limits, **TARGETS[name].limits, "MAX_THREADS": 1})


_target: ContextVar[Target | None] = ContextVar("target", default=None)


def other_target() -> Target | None:
    """Returns the machine for which this thread plans; None for this machine."""
    return _target.get()


@contextmanager
def planning_for(target: Target | None) -> Iterator[None]:
    """Plans and binds for another machine in a `with` block; such calls cannot run on this one.

    None stands for this machine.
    """
    token = _target.set(target)
    try:
        yield
    finally:
        _target.reset(token)
