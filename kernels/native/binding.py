"""Calls of compiled functions, with arguments resolved when a program is bound."""

import ctypes
import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from odt.kernels.native.library import LibraryError, exports, kernels_in_use, load
from odt.kernels.native.structs import STRUCTS

NUMBERS = {"int64_t": ctypes.c_int64, "float": ctypes.c_float}


@cache
def argument_types(name: str) -> tuple[Any, ...]:
    """Returns the types of a kernel's arguments, from the library's table.

    Raises:
        LibraryError: if the library has no kernel of that name.
    """
    if name not in exports().kernels:
        raise LibraryError(
            f"the compiled kernels must be those of this odt, but they lack {name}. "
            "Install odt again, or set ODT_KERNELS=numpy."
        )
    types = []
    for text in exports().kernels[name].strip("()").split(","):
        match = re.fullmatch(r"(?:const )?(\w+) (\*?)\w+", text.strip())
        assert match, f"{name}: {text}"
        kind, is_pointer = match.groups()
        if not is_pointer:
            types.append(NUMBERS[kind])
        else:
            types.append(ctypes.POINTER(STRUCTS[kind]) if kind in STRUCTS else ctypes.c_void_p)
    return tuple(types)


def argument(a: Any, kind: Any = ctypes.c_void_p) -> Any:
    """Converts an argument to the ctypes type in the table; keeps arrays alive.

    Raises:
        TypeError: if the argument has another type.
    """
    if isinstance(a, ctypes.Structure):
        a = ctypes.pointer(a)
    elif isinstance(a, np.ndarray):
        assert a.flags.c_contiguous, "a compiled kernel reads whole arrays"
        pointer = ctypes.c_void_p(a.ctypes.data)
        pointer.owner = a  # type: ignore[attr-defined]  # lives as long as what points to it
        a = pointer
    else:
        a = kind(a)
    kind.from_param(a)
    return a


def function(name: str) -> Callable[..., None]:
    """Returns a compiled kernel for the instruction set in use; it checks its arguments."""
    kernel: Any = getattr(load(), f"{name}_{kernels_in_use()}")
    kernel.argtypes, kernel.restype = argument_types(name), None
    return kernel  # type: ignore[no-any-return]  # ctypes' own


def bind(name: str, *arguments: Any) -> Callable[[], None]:
    """Returns a call of a compiled kernel with its arguments already converted.

    Args:
        name: name of the kernel, without its instruction set.
        arguments: contiguous arrays, None, numbers, or a structure.
    """
    types = argument_types(name)
    return partial(
        function(name), *(argument(a, kind) for a, kind in zip(arguments, types, strict=True))
    )


def in_order(calls: Sequence[Callable[[], None]]) -> Callable[[], None]:
    """Returns one call that makes several calls in order."""
    if len(calls) == 1:
        return calls[0]

    def run() -> None:
        for call in calls:
            call()

    return run
