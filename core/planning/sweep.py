"""Places blocks of memory in the order of time, as an allocator does, in n log n steps.

A block takes the smallest hole that fits, and holes that touch become one. In the usual training
step, whose activations live from forward to backward, the arena is as small as possible, or larger
by a few per cent.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple


class Interval(NamedTuple):
    """Bytes that are in use from one entry to another, both inclusive."""

    first: int
    last: int
    nbytes: int


def sweep(intervals: Iterable[Interval], below: int) -> tuple[list[int], int]:
    """Returns the offset of each interval, and the end of the last one.

    Stops at the first interval that ends at `below` or later: then the end is not less, and the
    offsets of later intervals are missing.

    Args:
        intervals: ordered by their first entry.
        below: bytes that the end must not reach.
    """
    offsets: list[int] = []
    holes = _Holes()
    in_use: list[tuple[int, int, int]] = []  # last entry, offset, bytes; a heap
    for first, last, nbytes in intervals:
        while in_use and in_use[0][0] < first:
            _, offset, size = heappop(in_use)
            holes.add(offset, size)
        offset = holes.take(nbytes) if nbytes else 0
        if holes.end >= below:
            break
        if nbytes:
            heappush(in_use, (last, offset, nbytes))
        offsets.append(offset)
    return offsets, holes.end


class _Holes:
    """The unused bytes between intervals.

    Attributes:
        end: end of the last interval so far.
    """

    def __init__(self) -> None:
        self.end = 0
        self._by_size: list[tuple[int, int]] = []  # bytes and offset of each hole, in order
        self._sizes: dict[int, int] = {}  # offset → bytes
        self._starts: dict[int, int] = {}  # end → offset

    def add(self, offset: int, nbytes: int) -> None:
        """Adds bytes, as part of the holes that touch them."""
        if offset in self._starts:
            before = self._starts[offset]
            nbytes += self._remove(before)
            offset = before
        if offset + nbytes in self._sizes:
            nbytes += self._remove(offset + nbytes)
        self._sizes[offset] = nbytes
        self._starts[offset + nbytes] = offset
        insort(self._by_size, (nbytes, offset))

    def take(self, nbytes: int) -> int:
        """Returns the offset of bytes in the smallest hole that fits, or at the end."""
        k = bisect_left(self._by_size, (nbytes, 0))
        if k < len(self._by_size):
            size, offset = self._by_size[k]
            self._remove(offset)
            if size > nbytes:
                self.add(offset + nbytes, size - nbytes)
            return offset
        offset = self._starts.get(self.end, self.end)
        if offset < self.end:
            self._remove(offset)
        self.end = offset + nbytes
        return offset

    def _remove(self, offset: int) -> int:
        """Removes a hole; returns its bytes."""
        nbytes = self._sizes.pop(offset)
        del self._starts[offset + nbytes]
        del self._by_size[bisect_left(self._by_size, (nbytes, offset))]
        return nbytes
