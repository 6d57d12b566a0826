"""Calls of compiled functions, with their arguments resolved when a program is bound."""

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from odt.kernels.native.library import kernels_in_use, load


def argument(a: Any) -> Any:
    """What a compiled function takes for it; keeps arrays alive."""
    if a is None:
        return ctypes.c_void_p(None)
    if isinstance(a, ctypes.Structure):
        return ctypes.pointer(a)
    if isinstance(a, float):
        return ctypes.c_float(a)
    if isinstance(a, int):
        return ctypes.c_int64(a)
    assert a.flags.c_contiguous, "a compiled kernel reads whole arrays"
    pointer = ctypes.c_void_p(a.ctypes.data)
    pointer.owner = a  # type: ignore[attr-defined]  # lives as long as what points to it
    return pointer


def function(name: str) -> Callable[..., None]:
    """A compiled function for the instruction set in use."""
    found: Callable[..., None] = getattr(load(), f"{name}_{kernels_in_use()}")
    found.restype = None  # type: ignore[attr-defined]  # ctypes' own
    return found


def bind(name: str, *arguments: Any) -> Callable[[], None]:
    """A call of a compiled function on arguments that are resolved now.

    Args:
        name: of the function, without its instruction set.
        arguments: contiguous arrays, None, numbers, a structure.
    """
    return partial(function(name), *map(argument, arguments))


def in_order(calls: Sequence[Callable[[], None]]) -> Callable[[], None]:
    """One call that makes several."""
    if len(calls) == 1:
        return calls[0]

    def run() -> None:
        for call in calls:
            call()

    return run
