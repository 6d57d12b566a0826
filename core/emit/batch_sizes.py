"""Calls for any number of samples: numbers among their operands as functions of it.

With few exceptions, a program for fewer samples has the same calls as the program for a whole
batch, and each number among their operands grows by the same amount with each sample.
"""

import ctypes
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from odt.core.emit.c_literals import LISTS, array_bytes
from odt.kernels.native.binding import argument_types
from odt.kernels.native.regions import Place, address
from odt.kernels.native.table import Row

# Number of operands with equal structs from which on they share one variable. Layers that are
# unrolled have many such operands. Fewer ones do not share, because a shared variable takes stack
# during a whole pass.
SHARING = 8


class Linear(NamedTuple):
    """An integer that grows with the samples: `start` + `each` × samples."""

    start: int
    each: int


class LinearPlace(NamedTuple):
    """A place whose offset grows with the samples."""

    region: int
    offset: Linear


class LinearStruct(NamedTuple):
    """A struct, or an array of structs, with integers that grow with the samples.

    Attributes:
        struct: as for the most samples.
        fields: those integers, by how C writes the field: `[0].sizes[1]`.
    """

    struct: Any
    fields: Mapping[str, Linear]


class Group(NamedTuple):
    """Tables of successive numbers of samples, as one.

    Attributes:
        first, end: positions [first, end) of the tables.
        rows: the calls; integers, places and structs may be Linear, LinearPlace and LinearStruct.
    """

    first: int
    end: int
    rows: Sequence[Row]


class _Numbers(NamedTuple):
    """The integers of a table, in order, and all else that it consists of."""

    rest: tuple[object, ...]
    values: Sequence[int]


def grouped(tables: Sequence[Sequence[Row]], others: Sequence[object], least: int) -> list[Group]:
    """Groups tables whose calls differ only in numbers that grow evenly with the samples.

    Args:
        tables: calls for `least` samples, one more, and so on.
        others: for each table, what must be the same in a group beside the calls.
        least: the smallest number of samples.
    """
    digests: dict[tuple[int, int], bytes] = {}
    numbers = [_numbers(*table, digests) for table in zip(tables, others, strict=True)]
    groups = []
    first = 0
    for end in range(1, len(tables) + 1):
        if end == len(tables) or not _is_next(numbers, first, end):
            rows = _with_slopes(tables[end - 1], _slopes(numbers, first, end), end - 1 + least)
            groups.append(Group(first, end, rows))
            first = end
    return groups


def struct_key(a: LinearStruct) -> object:
    """Returns a key that is the same for structs that are equal for all numbers of samples."""
    return type(a.struct), tuple(_fields(a.struct)), tuple(a.fields.items())


def shared_structs(rows: Sequence[Row]) -> dict[object, LinearStruct]:
    """Returns the structs of at least SHARING operands, by key."""
    structs = [a for row in rows for a in row.operands if isinstance(a, LinearStruct)]
    keys = [struct_key(a) for a in structs]
    counts = Counter(keys)
    return {key: a for key, a in zip(keys, structs, strict=True) if counts[key] >= SHARING}


def _slopes(tables: Sequence[_Numbers], first: int, end: int) -> list[int]:
    """Returns by how much the numbers of tables [first, end) grow with each sample."""
    second = min(first + 1, end - 1)  # the first itself in a group of one
    pairs = zip(tables[first].values, tables[second].values, strict=True)
    return [b - a for a, b in pairs]


def _is_next(tables: Sequence[_Numbers], first: int, k: int) -> bool:
    """Whether table k continues the group that begins with table `first`."""
    if tables[k].rest != tables[first].rest:
        return False
    slopes = _slopes(tables, first, k + 1)
    numbers = zip(tables[first].values, tables[k].values, slopes, strict=True)
    return all(b - a == (k - first) * slope for a, b, slope in numbers)


def _numbers(rows: Sequence[Row], other: object, digests: dict[tuple[int, int], bytes]) -> _Numbers:
    """Returns the numbers of a table; `digests` are those of its constants, by address and size."""
    rest: list[object] = [other]
    values: list[int] = []
    for row in rows:
        rest.append(row.name)
        for a, kind in zip(row.operands, argument_types(row.name), strict=True):
            if isinstance(a, Place):
                rest.append(a.region)
                values.append(a.offset)
            elif kind is ctypes.c_int64:
                values.append(int(a))
            elif isinstance(a, np.ndarray):
                memory = address(a), a.nbytes
                if memory not in digests:
                    digests[memory] = sha256(array_bytes(a)).digest()
                rest.append(digests[memory])
            elif isinstance(a, ctypes.Structure | ctypes.Array) and _structs(a):
                for _, field in _fields(a):
                    if isinstance(field, int):
                        values.append(field)
                    else:
                        rest.append(field)
            else:
                # An array of numbers is the same memory in all tables.
                rest.append(id(a) if isinstance(a, ctypes.Array) else a)
    return _Numbers(tuple(rest), values)


def _structs(a: Any) -> list[ctypes.Structure]:
    """Returns the structs of an operand; none if it is an array of numbers."""
    each = list(a) if isinstance(a, ctypes.Array) else [a]
    return [struct for struct in each if isinstance(struct, ctypes.Structure)]


def _fields(a: Any) -> Iterator[tuple[str, int | float | bytes]]:
    """Yields the fields of structs: how C writes them, and the values."""
    for k, struct in enumerate(_structs(a)):
        for name, *_ in struct._fields_:
            value = getattr(struct, name)
            if name in LISTS:  # a pointer to integers of 64 bits
                yield name, ctypes.string_at(value, 8 * getattr(struct, LISTS[name]))
            else:
                yield from _values(f"[{k}].{name}", value)


def _values(name: str, value: Any) -> Iterator[tuple[str, int | float]]:
    """Yields the numbers of a field, which may be an array: how C writes them, and the values."""
    if isinstance(value, ctypes.Array):
        for k, element in enumerate(value):
            yield from _values(f"{name}[{k}]", element)
    else:
        yield name, value


def _with_slopes(rows: Sequence[Row], slopes: Sequence[int], samples: int) -> list[Row]:
    """Returns a table whose numbers grow.

    Args:
        rows: the table.
        slopes: for each number, in the order of `_numbers`, by how much it grows with a sample.
        samples: samples of the table.
    """
    next_slopes = iter(slopes)  # numbers are visited in the order of `_numbers`

    def linear(value: int) -> int | Linear:
        slope = next(next_slopes)
        return Linear(value - samples * slope, slope) if slope else value

    def operand(a: Any, kind: Any) -> Any:
        if isinstance(a, Place):
            offset = linear(a.offset)
            return LinearPlace(a.region, offset) if isinstance(offset, Linear) else a
        if kind is ctypes.c_int64:
            return linear(int(a))
        if isinstance(a, ctypes.Structure | ctypes.Array) and _structs(a):
            fields = {n: linear(v) for n, v in _fields(a) if isinstance(v, int)}
            growing = {n: v for n, v in fields.items() if isinstance(v, Linear)}
            return LinearStruct(a, growing) if growing else a
        return a

    return [
        Row(row.name, tuple(map(operand, row.operands, argument_types(row.name)))) for row in rows
    ]
