"""Calls of compiled functions, with arguments resolved when a program is bound."""

import ctypes
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from itertools import groupby
from typing import Any

import numpy as np

from odt.kernels.native.library import LibraryError, exports, kernels_in_use, load
from odt.kernels.native.structs import STRUCTS, BoundCall

Run = Callable[[], object]
SLOT = 8  # bytes of an argument
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

    Pointers to several structures have a `count`.

    Raises:
        TypeError: if the argument has another type.
    """
    if isinstance(a, ctypes.Structure):
        a = ctypes.pointer(a)
    elif isinstance(a, ctypes.Array):
        count, a = len(a), ctypes.cast(a, kind)
        a.count = count
    elif isinstance(a, np.ndarray):
        assert a.flags.c_contiguous, "a compiled kernel reads whole arrays"
        pointer = ctypes.c_void_p(a.ctypes.data)
        pointer.owner = a  # type: ignore[attr-defined]  # lives as long as what points to it
        a = pointer
    else:
        a = kind(a)
    kind.from_param(a)
    return a


def structs(each: Sequence[ctypes.Structure]) -> Any:
    """Returns structures side by side, as an argument; keeps what they point to alive."""
    array = (type(each[0]) * len(each))(*each)
    array.owners = each  # type: ignore[attr-defined]
    return array


def function(name: str) -> Callable[..., None]:
    """Returns a compiled kernel for the instruction set in use; it checks its arguments."""
    kernel: Any = getattr(load(), f"{name}_{kernels_in_use()}")
    kernel.argtypes, kernel.restype = argument_types(name), None
    return kernel  # type: ignore[no-any-return]  # ctypes' own


@cache
def _run_calls() -> Callable[..., None]:
    run: Any = load()
    run.run_calls.argtypes, run.run_calls.restype = (ctypes.c_void_p, ctypes.c_int64), None
    return run.run_calls  # type: ignore[no-any-return]  # ctypes' own


class Calls:
    """Calls of compiled kernels in order: a loop in C, without the interpreter lock."""

    def __init__(self, calls: Sequence[BoundCall], owners: object) -> None:
        """Makes the table of the loop.

        Args:
            calls: kernels and the addresses of their arguments.
            owners: what keeps the arguments alive.
        """
        self.calls, self._owners = calls, owners
        self._run = partial(_run_calls(), (BoundCall * len(calls))(*calls), len(calls))

    def __call__(self) -> None:
        self._run()


def bind(name: str, *arguments: Any) -> Callable[[], None]:
    """Returns a call of a compiled kernel with its arguments already converted.

    Args:
        name: name of the kernel, without its instruction set.
        arguments: contiguous arrays, None, numbers, or a structure.
    """
    types = argument_types(name)
    converted = [argument(a, kind) for a, kind in zip(arguments, types, strict=True)]
    kernel, caller = address(name)
    if not caller:
        return partial(function(name), *converted)
    content = b"".join(bytes(a).ljust(SLOT, b"\0") for a in converted)
    slots = (ctypes.c_int64 * len(types)).from_buffer_copy(content)
    return Calls([BoundCall(caller, kernel, ctypes.addressof(slots))], (converted, slots))


def address(name: str) -> tuple[int, int]:
    """Returns the addresses of a kernel and of the function that calls it, or 0."""
    kernel = ctypes.cast(function(name), ctypes.c_void_p).value  # type: ignore[arg-type]
    callers = exports().callers
    return kernel or 0, callers.get("map" if name.startswith("map_") else name, 0)


def joined(calls: Iterable[Run]) -> list[Run]:
    """Makes one loop in C of each run of consecutive compiled calls."""
    made: list[Run] = []
    for compiled, group in groupby(calls, lambda call: isinstance(call, Calls)):
        members: list[Any] = list(group)
        if compiled and len(members) > 1:
            members = [Calls([c for m in members for c in m.calls], members)]
        made += members
    return made


def in_order(calls: Iterable[Run]) -> Callable[[], None]:
    """Returns one call that makes several calls in order."""
    runs = joined(calls)
    if len(runs) == 1 and isinstance(runs[0], Calls):
        return runs[0]

    def run() -> None:
        for call in runs:
            call()

    return run
