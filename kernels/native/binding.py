"""Calls of compiled functions, with operands resolved when a program is bound."""

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
from odt.kernels.native.regions import address
from odt.kernels.native.structs import STRUCTS, BoundCall, CallList

Run = Callable[[], object]
pack_float = struct.Struct("f4x").pack  # to the bytes of an int64
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


@cache
def converters(name: str) -> tuple[Callable[[Any], int], ...]:
    """Returns functions of a kernel's operands to their bits in the table that a loop in C reads.

    They raise a TypeError if the operand has another type.
    """
    usual: dict[Any, Callable[[Any], int]] = {
        ctypes.c_int64: index,
        ctypes.c_float: _bits_of_float,
        ctypes.c_void_p: _address,
    }
    return tuple(usual.get(kind) or partial(_reference, kind) for kind in argument_types(name))


def _bits_of_float(a: float) -> int:
    return int.from_bytes(pack_float(a), sys.byteorder)


def _address(a: Any) -> int:
    if a is None:
        return 0
    if isinstance(a, np.ndarray):
        assert a.flags.c_contiguous, "a compiled kernel reads whole arrays"
        return address(a)
    return _reference(ctypes.c_void_p, a)


def _reference(kind: Any, a: Any) -> int:
    if a is None:
        return 0
    kind.from_param(a if isinstance(a, ctypes.Array) else ctypes.byref(a))
    return ctypes.addressof(a)


def structs(members: Sequence[ctypes.Structure], owners: object = None) -> Any:
    """Returns structures side by side, as an argument; keeps them and their owners alive."""
    array = (type(members[0]) * len(members))(*members)
    array.owners = members, owners  # type: ignore[attr-defined]
    return array


@cache
def _run_calls() -> Callable[..., None]:
    run: Any = load()
    run.run_calls.argtypes, run.run_calls.restype = (ctypes.c_void_p, ctypes.c_int64), None
    return run.run_calls  # type: ignore[no-any-return]  # ctypes' own


@cache
def _packer(count: int) -> Callable[..., bytes]:
    return struct.Struct(f"{count}q").pack


class Call:
    """A compiled kernel and its operands.

    Attributes:
        name: name of the kernel, without its instruction set.
        operands: contiguous arrays, None, numbers, or structures.
        slots: bits of the operands, each an int64; those of an array may be another address than
            that of the operand.
    """

    __slots__ = ("_owners", "name", "operands", "slots")

    def __init__(
        self, name: str, operands: Sequence[Any], bits: Sequence[int], owners: object = None
    ) -> None:
        """Makes the call.

        Args:
            name, operands: as the attributes.
            bits: bits of the operands.
            owners: objects that own memory which no operand owns; they are kept alive.
        """
        self.name, self.operands, self._owners = name, operands, owners
        self.slots = _packer(len(bits))(*bits)

    @property
    def bits(self) -> Iterator[int]:
        """Yields the bits of each operand."""
        return (bits for (bits,) in struct.iter_unpack("q", self.slots))


def table_of(calls: Sequence[Call]) -> Any:
    """Returns the table that a loop in C reads; it keeps the calls alive."""
    slots = np.frombuffer(b"".join(c.slots for c in calls), np.uint8)
    *starts, _ = accumulate((len(c.slots) for c in calls), initial=slots.ctypes.data)
    kernels = kernels_in_use()
    fields = [
        a
        for c, start in zip(calls, starts, strict=True)
        for a in (*addresses(c.name, kernels), start)
    ]
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
        """Keeps the calls; the table of the loop is made when it is first needed."""
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


def side_by_side(groups: Sequence[Sequence[Calls]]) -> Callable[[], None]:
    """Returns a call that runs groups of loops at the same time, the loops of a group in order.

    Threads of the library run them, which poll for the next ones. A group for which there is no
    thread runs after another one.
    """
    library: Any = load()
    longest = max(map(len, groups))
    lists: Any = (CallList * (len(groups) * longest))()  # those beyond the end of a group are empty
    for k, group in enumerate(groups):
        lists[k * longest : k * longest + len(group)] = [loop.listed for loop in group]
    lists.owners = groups
    counts = ctypes.c_int64(len(groups)), ctypes.c_int64(longest)
    return partial(library.run_side_by_side, lists, *counts)


def bind(name: str, *operands: Any) -> Calls:
    """Returns a call of a compiled kernel with its operands; see `Call`."""
    return call_of(name, operands)


def call_of(name: str, operands: Sequence[Any]) -> Calls:
    """As `bind`; a function of its own so that tools can run kernels of another library.

    Raises:
        LibraryError: if the library's kernel has another number of arguments.
    """
    to_bits = converters(name)
    if len(to_bits) != len(operands):
        raise LibraryError(
            f"the compiled kernels must be those of this odt, but {name} has {len(to_bits)} "
            f"arguments, not {len(operands)}. Install odt again, or set ODT_KERNELS=numpy."
        )
    bits = [convert(a) for convert, a in zip(to_bits, operands, strict=True)]
    return Calls([Call(name, operands, bits)])


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


# Whether a note of a check was ever of data that cannot be used; until then no check need run.
FOUND = np.zeros(1, np.int64)


class Check:
    """A call that raises an error if data cannot be used; a C program has none.

    Attributes:
        note: compiled call that notes such data in memory of its own, and sets FOUND, so that `run`
            may follow at the end of a phase; None if `run` must follow at once.
        run: raises the error.
    """

    __slots__ = ("note", "run")

    def __init__(self, run: Run, note: Calls | None = None) -> None:
        """Keeps the functions."""
        self.note, self.run = note, run

    def __call__(self) -> None:
        if self.note is not None:
            self.note()
        self.run()


class InOrder:
    """Several calls in order.

    Attributes:
        runs: the calls.
    """

    __slots__ = ("runs",)

    def __init__(self, runs: Sequence[Run]) -> None:
        """Keeps the calls."""
        self.runs = runs

    def __call__(self) -> None:
        for run in self.runs:
            run()


def in_order(calls: Iterable[Run]) -> Callable[[], None]:
    """Returns one call that makes several calls in order."""
    runs = joined(calls)
    if len(runs) == 1 and isinstance(runs[0], Calls):
        return runs[0]
    return InOrder(runs)


def with_late_checks(run: Run, late: list[Run]) -> Iterator[Run]:
    """Yields what a call consists of; checks that may follow at the end are added to `late`."""
    if isinstance(run, InOrder):
        for each in run.runs:
            yield from with_late_checks(each, late)
    elif isinstance(run, Check) and run.note is not None:
        late.append(run.run)
        yield run.note
    else:
        yield run


def without_checks(run: Run) -> Iterator[Run]:
    """Yields what a call consists of, except checks."""
    if isinstance(run, InOrder):
        for each in run.runs:
            yield from without_checks(each)
    elif not isinstance(run, Check):
        yield run
