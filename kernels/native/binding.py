"""Calls of compiled functions, with arguments resolved when a program is bound."""

import ctypes
import re
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import accumulate, groupby
from operator import index
from typing import Any

import numpy as np

from odt.kernels.native.library import LibraryError, exports, kernels_in_use, load
from odt.kernels.native.structs import STRUCTS, BoundCall, CallList

Run = Callable[[], object]
Move = Callable[[int], int]
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


def slot(a: Any, kind: Any) -> int:
    """Returns the bits of an argument of the ctypes type in the table.

    Raises:
        TypeError: if the argument has another type.
    """
    if isinstance(a, np.ndarray) and kind is ctypes.c_void_p:
        assert a.flags.c_contiguous, "a compiled kernel reads whole arrays"
        address: int = a.__array_interface__["data"][0]
        return address
    if kind is ctypes.c_int64:
        return index(a)
    if kind is ctypes.c_float:
        return int.from_bytes(bytes(kind(a)).ljust(8, b"\0"), sys.byteorder)
    if a is None:
        return 0
    kind.from_param(a if isinstance(a, ctypes.Array) else ctypes.byref(a))
    return ctypes.addressof(a)


def structs(each: Sequence[ctypes.Structure], owners: object = None) -> Any:
    """Returns structures side by side, as an argument; keeps them and their owners alive."""
    array = (type(each[0]) * len(each))(*each)
    array.owners = each, owners  # type: ignore[attr-defined]
    return array


@cache
def _run_calls() -> Callable[..., None]:
    run: Any = load()
    run.run_calls.argtypes, run.run_calls.restype = (ctypes.c_void_p, ctypes.c_int64), None
    return run.run_calls  # type: ignore[no-any-return]  # ctypes' own


class Call:
    """A compiled kernel and its arguments.

    Attributes:
        kernel: addresses of the function that calls the kernel, and of the kernel.
        slots: the arguments' bits, each an int64.
    """

    __slots__ = ("_owners", "_types", "kernel", "slots")

    def __init__(
        self, kernel: tuple[int, int], types: Sequence[Any], bits: Sequence[int], owners: object
    ) -> None:
        """Makes the call.

        Args:
            kernel: as the attribute.
            types: types of the arguments.
            bits: the arguments' bits.
            owners: what keeps the arguments alive.
        """
        self.kernel, self.slots = kernel, struct.pack(f"{len(bits)}q", *bits)
        self._types, self._owners = types, owners

    @property
    def arguments(self) -> Iterator[tuple[int, Any]]:
        """Yields the bits and the type of each argument."""
        bits: Iterator[int] = (a for (a,) in struct.iter_unpack("q", self.slots))
        return zip(bits, self._types, strict=True)

    def moved(self, move: Move, owners: object) -> "Call":
        """Returns the call on other memory; see `Calls.moved`."""
        bits = [move(a) if kind is ctypes.c_void_p else a for a, kind in self.arguments]
        return Call(self.kernel, self._types, bits, (self._owners, owners))


def table_of(calls: Sequence[Call]) -> Any:
    """Returns the table that a loop in C reads; it keeps the calls alive."""
    slots = np.frombuffer(b"".join(c.slots for c in calls), np.uint8)
    starts = accumulate((len(c.slots) for c in calls), initial=slots.ctypes.data)
    fields = [a for c, start in zip(calls, starts, strict=False) for a in (*c.kernel, start)]
    table: Any = (BoundCall * len(calls)).from_buffer(
        bytearray(struct.pack(f"{len(fields)}P", *fields))
    )
    table.owners = slots, calls
    return table


class Calls:
    """Calls of compiled kernels in order: a loop in C, without the interpreter lock.

    Attributes:
        calls: the calls.
    """

    __slots__ = ("_listed", "_run", "_table", "calls")

    def __init__(self, calls: Sequence[Call]) -> None:
        """Keeps the calls; the table of the loop is made when it is first wanted."""
        self.calls = calls
        self._run: Callable[[], None] | None = None
        self._listed: CallList | None = None
        self._table: Any = None

    @property
    def listed(self) -> CallList:
        """The table of the loop, and its length."""
        if self._listed is None:
            self._table = table_of(self.calls)
            self._listed = CallList(ctypes.addressof(self._table), len(self.calls))
        return self._listed

    def __call__(self) -> None:
        if self._run is None:
            self._run = partial(_run_calls(), self.listed.calls, self.listed.count)
        self._run()

    def moved(self, move: Move, owners: object) -> "Calls":
        """Returns the same calls on other memory, in a third of the time of binding them again.

        Args:
            move: returns the new address for that of an array; the same one for those that stay.
            owners: what keeps the new memory alive.
        """
        return Calls([c.moved(move, owners) for c in self.calls])


def side_by_side(groups: Sequence[Sequence[Calls]]) -> Callable[[], None]:
    """Returns a call that runs groups of loops at the same time, the loops of a group in order.

    Threads of the library run them, which poll for the next ones. A group for which there is no
    thread runs after another one.
    """
    library: Any = load()
    each = max(map(len, groups))
    lists: Any = (CallList * (len(groups) * each))()  # those beyond the end of a group are empty
    for k, group in enumerate(groups):
        lists[k * each : k * each + len(group)] = [loop.listed for loop in group]
    lists.owners = groups
    counts = ctypes.c_int64(len(groups)), ctypes.c_int64(each)
    return partial(library.run_side_by_side, lists, *counts)


def bind(name: str, *arguments: Any) -> Calls:
    """Returns a call of a compiled kernel with its arguments already converted.

    Args:
        name: name of the kernel, without its instruction set.
        arguments: contiguous arrays, None, numbers, or structures.
    """
    types = argument_types(name)
    bits = [slot(a, kind) for a, kind in zip(arguments, types, strict=True)]
    return call_of(name, bits, arguments)


def call_of(name: str, bits: Sequence[int], arguments: Sequence[Any]) -> Calls:
    """Returns the call of a kernel with these arguments and their bits."""
    kernel = addresses(name, kernels_in_use())
    return Calls([Call(kernel, argument_types(name), bits, arguments)])


@cache
def addresses(name: str, kernels: str) -> tuple[int, int]:
    """Returns the addresses of the function that calls a kernel, and of the kernel."""
    caller = exports().callers["map" if name.startswith("map_") else name]
    kernel: Any = getattr(load(), f"{name}_{kernels}")
    return caller, ctypes.cast(kernel, ctypes.c_void_p).value or 0


def one_loop(loops: Iterable[Calls]) -> Calls:
    """Returns one loop in C that makes the calls of several loops, in order."""
    return Calls([c for loop in loops for c in loop.calls])


def joined(calls: Iterable[Run]) -> list[Run]:
    """Makes one loop in C of each run of consecutive compiled calls."""
    loops: list[Run] = []
    for compiled, group in groupby(calls, lambda call: isinstance(call, Calls)):
        members: list[Any] = list(group)
        if compiled and len(members) > 1:
            members = [one_loop(members)]
        loops += members
    return loops


def in_order(calls: Iterable[Run]) -> Callable[[], None]:
    """Returns one call that makes several calls in order."""
    runs = joined(calls)
    if len(runs) == 1 and isinstance(runs[0], Calls):
        return runs[0]

    def run() -> None:
        for call in runs:
            call()

    return run
