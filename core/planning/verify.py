"""Verifies a memory plan by simulating which value each byte holds, independently of lifetimes.

A program is bound only to a memory plan that has passed this check.
"""

from bisect import bisect_left
from collections.abc import Iterable

from odt.core.planning.memory import ALIGNMENT, MemoryPlan
from odt.core.planning.plan import Call, Delivery, Plan, Region, Value

Extent = tuple[int, int]  # of bytes: first, and last + 1


def verify(plan: Plan, memory: MemoryPlan) -> None:
    """Verifies a memory plan.

    Raises:
        AssertionError: for a bug of the planner.
    """
    problems = faults(plan, memory)
    if problems:
        raise AssertionError(f"{plan.graph.name}: memory plan: {'; '.join(problems[:3])}")


def faults(plan: Plan, memory: MemoryPlan) -> list[str]:
    """Returns all faults of a memory plan; empty if it is valid.

    A value may be read only until another value is written into its bytes. An update that owns its
    gradient destroys it.
    """
    return _Check(plan, memory).run()


class _Check:
    """A simulation of a plan: which values are intact in the arena, entry by entry."""

    def __init__(self, plan: Plan, memory: MemoryPlan) -> None:
        self.plan, self.memory = plan, memory
        self.faults: list[str] = []
        self.intact: dict[str, Extent] = {}
        self.starts: list[int] = []  # extents of the intact values, sorted; they do not overlap
        self.names: dict[int, str] = {}  # start → value
        self.places = {
            name: self._place(value)
            for name, value in plan.values.items()
            if value.base is None
            and value.region in (Region.ARENA, Region.INPUT)
            and name in memory.offsets
        }

    def run(self) -> list[str]:
        """Returns the faults."""
        plan, forward_end = self.plan, self.plan.forward_entries - 1
        together: list[tuple[int, Delivery]] = []
        for name in plan.filled:
            if name in self.places:
                self._write(name)
        for k, entry in enumerate(plan.entries):
            if isinstance(entry, Delivery):
                if entry.call:
                    self._apply(entry.call)
                together.append((k, entry))
                continue
            if together:
                self._deliver(together)
                together.clear()
            self._apply(entry)
            if k == forward_end:
                self._must_be_intact(plan.read_after_forward, "the end of the forward phase")
        self._deliver(together)
        self._must_be_intact(plan.losses, "the end")
        return self.faults

    def _deliver(self, deliveries: Iterable[tuple[int, Delivery]]) -> None:
        """Makes deliveries, which workers may make at the same time."""
        for k, entry in deliveries:
            self._must_be_intact(entry.touched, f"delivery of {entry.gradient}")
            root = self.plan.root(entry.gradient)
            if self.plan.last_touched[root] == k and root in self.intact:
                self._remove(root)

    def _place(self, value: Value) -> Extent:
        """Returns the bytes of a value; checks that they are aligned and in the arena."""
        name, start = value.name, self.memory.offsets[value.name]
        stop = start + self.plan.nbytes[value.name]
        if start % ALIGNMENT:
            self.faults.append(f"{name} begins at {start}, which is not a multiple of {ALIGNMENT}")
        if start < 0 or stop > self.memory.nbytes:
            self.faults.append(f"{name} lies outside the arena")
        return start, stop

    def _must_be_intact(self, names: Iterable[str], where: str) -> None:
        """Checks that no byte of some values was overwritten."""
        roots, places, intact = self.plan.roots, self.places, self.intact
        for name in names:
            root = roots.get(name, name)
            if root not in intact and root in places:
                self.faults.append(f"{where} reads {name}, which has been partly overwritten")

    def _apply(self, call: Call) -> None:
        """Checks what a call reads, and the extents that it writes, and writes them."""
        roots, places, arrays, intact = self.plan.roots, self.places, call.arrays, self.intact
        reads: list[tuple[str, str, Extent]] = []
        for argument in call.reads:
            name = roots.get(arrays[argument], arrays[argument])
            place = places.get(name)
            if place is not None:
                reads.append((argument, name, place))
                if name not in intact:
                    self._must_be_intact((arrays[argument],), call.label)
        written: list[str] = []
        for argument in (*call.writes, *call.workspace):
            name = roots.get(arrays[argument], arrays[argument])
            if name not in places and self.plan.values[name].region is Region.SUM:
                continue
            start, stop = here = places[name]
            for read, other, there in reads:
                if start < there[1] and there[0] < stop:
                    if start == there[0] and (argument, read) in call.kernel.may_alias:
                        continue
                    self.faults.append(f"{call.label} writes {name} over {other}, which it reads")
            for other in written:
                if meet(here, places[other]):
                    self.faults.append(
                        f"{call.label} writes {name} and {other} into the same bytes"
                    )
            written.append(name)
        for name in written:
            self._write(name)

    def _write(self, name: str) -> None:
        """Makes a value intact, and those that had bytes of it no longer."""
        start, stop = here = self.places[name]
        if start == stop:
            self.intact[name] = here
            return
        starts, names = self.starts, self.names
        if self.intact.get(names.get(start, "")) == here:  # in the place of another one
            del self.intact[names[start]]
        else:
            k = bisect_left(starts, start)
            if k and self.intact[names[starts[k - 1]]][1] > start:
                k -= 1
            while k < len(starts) and starts[k] < stop:
                self._remove(names[starts[k]])
            starts.insert(k, start)
        names[start] = name
        self.intact[name] = here

    def _remove(self, name: str) -> None:
        """Makes a value no longer intact."""
        start, stop = self.intact.pop(name)
        if start != stop:
            del self.starts[bisect_left(self.starts, start)], self.names[start]


def meet(a: Extent, b: Extent) -> bool:
    """Whether two extents have a byte in common."""
    return a[0] < b[1] and b[0] < a[1]
