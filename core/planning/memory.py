"""Places the values of a plan in one arena.

`ODT_PLANNER=none` gives every value its own memory: the first thing to try for any bug.
"""

import os
import sys
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from heapq import heappop, heappush
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from odt.core.planning.lifetimes import Lifetime, lifetimes, replacements
from odt.core.planning.plan import Plan
from odt.dataclass import dataclass
from odt.errors import OptionError

ALIGNMENT = 64  # bytes: a cache line, and the widest vector register
MAX_IN_A_LIST = 1000  # blocks, above which arrays are faster
# Blocks above which only orders of time are tried: to place many blocks in another order takes
# quadratic time, and saves a few per cent of the arena.
MAX_IN_ANY_ORDER = 10_000
ENOUGH = 1.01  # bytes of an arena of many blocks / least bytes, for which no other order is tried


class Placement(NamedTuple):
    """The offset of every value, and the size of the arena, in bytes."""

    offsets: dict[str, int]
    nbytes: int


class Interval(NamedTuple):
    """Bytes that are in use from one entry to another, both inclusive."""

    first: int
    last: int
    nbytes: int


class Block(NamedTuple):
    """Memory of a chain of values, each of which overlays the previous one.

    Attributes:
        values: the values, in order of time.
        nbytes: bytes of the largest value.
        lifetime: from the first entry of the first value to the last entry of the last one.
    """

    values: tuple[str, ...]
    nbytes: int
    lifetime: Lifetime


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Offsets of a plan's values in an arena.

    Attributes:
        offsets: byte offset of every value that is not a view, a multiple of ALIGNMENT.
        nbytes: bytes of the arena.
        separate: bytes of the same values without reuse of memory.
        blocks: blocks of memory that the values share.
    """

    offsets: Mapping[str, int]
    nbytes: int
    separate: int
    blocks: Sequence[Block] = field(default=(), compare=False)

    def __str__(self) -> str:
        lines = [f"arena of {self.nbytes} bytes, {self.separate} without reuse"]
        return "\n".join([*lines, *(f"{at} {name}" for name, at in self.offsets.items())])


def plan_memory(
    plan: Plan, planner: str | None = None, *, overlays: bool = True, below: int = sys.maxsize
) -> MemoryPlan:
    """Places all values of the plan's arena, and its inputs.

    Args:
        plan: the plan.
        planner: "none" (every value has its own memory) or "first_fit"; None for the value of the
            environment variable ODT_PLANNER, else first_fit.
        overlays: whether a call's result may overlay an operand.
        below: bytes that the arena must not reach; if it would, the result has as many or more, and
            offsets are missing.

    Raises:
        OptionError: if there is no planner of that name.
    """
    planner = planner or os.environ.get("ODT_PLANNER") or "first_fit"
    if planner not in ("none", "first_fit"):
        raise OptionError("ODT_PLANNER", "must be none or first_fit", planner)
    alive = lifetimes(plan)
    sizes = {name: plan.nbytes[name] for name in alive}
    separate = sum([aligned(n) for n in sizes.values()])
    if planner == "none":
        forever = Lifetime(min((t.first for t in alive.values()), default=0), len(plan.entries))
        blocks = [Block((name,), sizes[name], forever) for name in alive]
    else:
        blocks = _blocks(alive, sizes, replacements(plan, alive) if overlays else {})
    offsets, nbytes = _place_best(blocks, below)
    return MemoryPlan(offsets, nbytes, separate, blocks)


def separate_nbytes(plan: Plan) -> int:
    """Returns the bytes of the values of a plan's arena without reuse of memory."""
    return sum([aligned(plan.nbytes[name]) for name in lifetimes(plan)])


def nbytes_of_one(plan: Plan, memory: MemoryPlan) -> int:
    """Returns the bytes of the arena for one sample; with many blocks, those alive at once.

    Args:
        plan: plan for several samples.
        memory: its memory plan.
    """
    others, nbytes, values = plan.graph.samples - 1, plan.nbytes, plan.values
    blocks = []
    for names, _, lifetime in memory.blocks:
        most = max([nbytes[n] - others * values[n].growth for n in names])
        blocks.append(Block(names, most, lifetime))
    if len(blocks) > MAX_IN_A_LIST:
        return _least(blocks)
    return _place_best(blocks, sys.maxsize).nbytes


def aligned(nbytes: int) -> int:
    """Returns the next multiple of ALIGNMENT."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def place(blocks: Sequence[Block], below: int = sys.maxsize) -> Placement:
    """Places each block, in the given order, at the lowest offset that is free during its lifetime.

    Stops at the first block that ends at `below` or later: then the size returned is not less, and
    some offsets are missing.
    """
    if len(blocks) > MAX_IN_A_LIST:
        return _place_many(blocks, below)
    offsets: dict[str, int] = {}
    placed: list[tuple[int, int, int, int]] = []  # extent and lifetime of each block
    end = 0
    for block in blocks:
        offset = 0
        size = aligned(block.nbytes)
        first, last = block.lifetime.first, block.lifetime.last
        for start, stop, since, until in placed:  # by offset
            if since <= last and first <= until and stop > offset:
                if start - offset >= size:
                    break
                offset = stop
        end = max(end, offset + size)
        if end >= below:
            break
        insort(placed, (offset, offset + size, first, last))
        offsets.update((name, offset) for name in block.values)
    return Placement(offsets, end)


def _place_many(blocks: Sequence[Block], below: int) -> Placement:
    """Does what `place` does, in arrays: a loop of 1,000 steps has tens of thousands of blocks."""
    offsets: dict[str, int] = {}
    placed = np.empty((4, len(blocks)), np.int64)  # extents and lifetimes, by offset
    end = 0
    for n, block in enumerate(blocks):
        size = aligned(block.nbytes)
        first, last = block.lifetime.first, block.lifetime.last
        start, stop, since, until = placed[:, :n]
        (meets,) = np.nonzero((since <= last) & (first <= until))
        free = np.maximum.accumulate(np.concatenate(([0], stop[meets])))
        (gaps,) = np.nonzero(start[meets] - free[:-1] >= size)
        offset = int(free[gaps[0] if gaps.size else -1])
        end = max(end, offset + size)
        if end >= below:
            break
        at = int(np.searchsorted(start, offset, "right"))
        placed[:, at + 1 : n + 1] = placed[:, at:n].copy()
        placed[:, at] = offset, offset + size, first, last
        offsets.update((name, offset) for name in block.values)
    return Placement(offsets, end)


def _blocks(
    alive: Mapping[str, Lifetime], sizes: Mapping[str, int], overlays: Mapping[str, str]
) -> list[Block]:
    """Returns a block for each chain of values; `overlays`: value → the value that it overlays."""
    followers = {old: new for new, old in overlays.items()}
    blocks = []
    for name, life in alive.items():
        if name in overlays:
            continue
        if name not in followers:
            blocks.append(Block((name,), sizes[name], life))
            continue
        chain = [name]
        while chain[-1] in followers:
            chain.append(followers[chain[-1]])
        lifetime = Lifetime(life.first, alive[chain[-1]].last)
        blocks.append(Block(tuple(chain), sizes[name], lifetime))  # no overlay is larger
    return blocks


def _place_best(blocks: Sequence[Block], below: int) -> Placement:
    """Places the blocks in the order that needs the smallest arena; `below` as for `place`."""
    least = _least(blocks)
    best = Placement({}, max(least, below))
    if best.nbytes == least:
        return best
    if len(blocks) > MAX_IN_A_LIST:
        for backwards in (True, False):
            placement = _place_by_time(blocks, best.nbytes, backwards=backwards)
            if placement.nbytes < best.nbytes:
                best = placement
            if best.nbytes == least:
                return best
        is_enough = bool(best.offsets) and best.nbytes <= ENOUGH * least
        if is_enough or len(blocks) > MAX_IN_ANY_ORDER:
            return best
    for order in _orders(blocks):
        if best.nbytes == least:  # no order needs less
            break
        placement = place(order, best.nbytes)
        if placement.nbytes < best.nbytes:
            best = placement
    return best


def _least(blocks: Sequence[Block]) -> int:
    """Returns the most bytes that are alive at once, which no arena can be smaller than."""
    changes: dict[int, int] = {}  # of the bytes that are alive, by entry
    for _, nbytes, (first, last) in blocks:
        if nbytes:
            size = aligned(nbytes)
            changes[first] = changes.get(first, 0) + size
            changes[last + 1] = changes.get(last + 1, 0) - size
    return max(accumulate(changes[k] for k in sorted(changes)), default=0)


def _place_by_time(blocks: Sequence[Block], below: int, *, backwards: bool) -> Placement:
    """Places blocks in the order of their first entries, or backwards in that of their last ones.

    `below` is as for `place`.
    """
    if backwards:
        order = sorted(blocks, key=lambda b: (-b.lifetime.last, -b.nbytes))
        times = (Interval(-last, -first, aligned(n)) for _, n, (first, last) in order)
    else:
        order = sorted(blocks, key=lambda b: (b.lifetime.first, -b.nbytes))
        times = (Interval(first, last, aligned(n)) for _, n, (first, last) in order)
    places, nbytes = sweep(times, below)
    offsets = {n: at for block, at in zip(order, places, strict=False) for n in block.values}
    return Placement(offsets, nbytes)


def sweep(intervals: Iterable[Interval], below: int) -> tuple[list[int], int]:
    """Returns the offset of each interval, and the end of the last one, in n log n steps.

    An interval takes the smallest hole that fits, as in an allocator. In the usual training step,
    whose activations live from forward to backward, the end is as low as possible, or higher by a
    few per cent.

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


def _orders(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Yields orders to try; which one wastes least depends on the network."""

    def length(block: Block) -> int:
        return block.lifetime.last - block.lifetime.first + 1

    yield sorted(blocks, key=lambda b: (-b.nbytes, b.lifetime.first))
    yield sorted(blocks, key=lambda b: (-b.nbytes * length(b), b.lifetime.first))
    yield sorted(blocks, key=lambda b: (-length(b), -b.nbytes))
    yield sorted(blocks, key=lambda b: (b.lifetime.first, -b.nbytes))
