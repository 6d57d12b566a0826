"""Recomputes activations in the backward phase instead of saving them (gradient checkpointing).

A forward call is repeated immediately before the first backward call that reads its result,
together with the calls whose results it reads, unless those are saved. A recomputed value lives
until its last reader, so no call is repeated twice. A repeated call runs before the weights that it
reads are updated, because backward visits the nodes in reverse order.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from odt.core.planning.cost import call_seconds
from odt.core.planning.plan import Call, Delivery, Phase, Plan, Region
from odt.kernels.rows.opdef import Array


class Repeat(NamedTuple):
    """A forward call that is repeated.

    Attributes:
        before: entry of the backward phase before which it is repeated.
        call: entry that is repeated.
    """

    before: int
    call: int


def recompute(plan: Plan, dropped: Collection[str]) -> Plan:
    """Rewrites a plan so that some values are recomputed.

    Args:
        plan: plan of a training step.
        dropped: values of the forward phase; all results of a call are dropped together.
    """
    if not dropped:
        return plan
    values = TouchedValues(plan)
    return _Rewriter(plan).plan(values.repeats(values.calls(dropped)))


class TouchedValues:
    """What the entries of a training plan read and write in the arena.

    Values have numbers here. A view has the number of the value that it views.

    Attributes:
        plan: the plan.
        forward: number of entries of the forward phase.
        names, sizes: name and bytes of each value.
        reads: values that each entry reads.
        writes: values that each entry writes, also workspace.
        writer: entry that writes each value; -1 for inputs.
        maker: the same for values that are written in the forward phase; -1 for others.
        readers: entries that read each value, in order.
        first_later: first entry of the backward phase that reads a value, by saved value.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.forward = plan.forward_entries
        in_arena = (Region.ARENA, Region.INPUT)
        values = [v for v in plan.values.values() if v.base is None and v.region in in_arena]
        self.names = [value.name for value in values]
        self.sizes = [value.spec.nbytes for value in values]
        self._numbers = {name: number for number, name in enumerate(self.names)}
        self.reads: list[list[int]] = []
        self.writes: list[list[int]] = []
        for entry in plan.entries:
            if isinstance(entry, Call):
                self.reads.append(self.of(entry.values(entry.reads)))
                self.writes.append(self.of(entry.values((*entry.writes, *entry.workspace))))
            else:
                self.reads.append(self.of((entry.gradient,)))
                self.writes.append([])
        self.writer = [-1] * len(values)
        self.readers: list[list[int]] = [[] for _ in values]
        for k, (reads, writes) in enumerate(zip(self.reads, self.writes, strict=True)):
            for v in reads:
                self.readers[v].append(k)
            for v in writes:
                self.writer[v] = k
        self.maker = [k if k < self.forward else -1 for k in self.writer]
        self.first_later: dict[int, int] = {}
        for v, readers in enumerate(self.readers):
            later = readers[bisect_left(readers, self.forward) :]
            if later and self.maker[v] >= 0:
                self.first_later[v] = later[0]

    def of(self, names: Iterable[str]) -> list[int]:
        """Returns the numbers of values, without those that need no memory in the arena."""
        roots = dict.fromkeys(map(self.plan.root, names))
        return [self._numbers[root] for root in roots if root in self._numbers]

    def calls(self, names: Iterable[str]) -> set[int]:
        """Returns the calls of the forward phase that make values."""
        return {self.maker[v] for v in self.of(names) if self.maker[v] >= 0}

    def bytes_per_second(self) -> dict[int, float]:
        """Returns the bytes freed per second of recomputation, the most first.

        Values that may not be dropped are left out.
        """
        losses = {self.maker[v] for v in self.of(self.plan.losses)}
        rates = {}
        # In the order of the calls, for ties.
        for v in sorted(self.first_later, key=lambda v: (self.maker[v], self.names[v])):
            if self.maker[v] not in losses:
                call = self.plan.entries[self.maker[v]]
                assert isinstance(call, Call), "calls make values"
                rates[v] = self.sizes[v] / call_seconds(self.plan, call)
        return dict(sorted(rates.items(), key=itemgetter(1), reverse=True))

    def repeats(self, dropped: Collection[int]) -> list[Repeat]:
        """Returns the calls that are repeated if the results of some calls are dropped, in order.

        A call is repeated before the first entry of the backward phase that reads a result which
        was dropped, or with the first repeated call that reads a result which is not saved.
        """
        before: dict[int, int] = {}
        for c in dropped:
            later = [self.first_later[v] for v in self.writes[c] if v in self.first_later]
            if later:
                before[c] = min(later)
        for c in range(self.forward - 1, -1, -1):  # after all calls that read its results
            k = before.get(c)
            if k is None:
                continue
            for v in self.reads[c]:
                made = self.maker[v]
                if made >= 0 and (made in dropped or v not in self.first_later):
                    before[made] = min(before.get(made, k), k)
        return sorted(Repeat(k, c) for c, k in before.items())

    @cached_property
    def overlays(self) -> dict[int, list[tuple[int, int]]]:
        """Pairs of a result and an operand that it may overlay, by entry."""
        overlays: dict[int, list[tuple[int, int]]] = {}
        for k, entry in enumerate(self.plan.entries):
            may_alias = entry.kernel.may_alias if isinstance(entry, Call) else ()
            if not (isinstance(entry, Call) and may_alias):
                continue
            for written in entry.writes:
                read = (n for n in entry.reads if (written, n) in may_alias)
                pair = self.of(entry.arrays[n] for n in (written, *islice(read, 1)))
                if len(pair) == 2 and self.sizes[pair[0]] <= self.sizes[pair[1]]:
                    overlays.setdefault(k, []).append((pair[0], pair[1]))
        return overlays

    @cached_property
    def overlay_pairs(self) -> Array:
        """(3, n): the entry, the result and the operand of each of `overlays`."""
        pairs = [(k, *pair) for k, pairs in self.overlays.items() for pair in pairs]
        return np.array(pairs, np.intp).reshape(-1, 3).T

    @cached_property
    def nbytes(self) -> Array:
        """Bytes of each value."""
        return np.array(self.sizes, np.int64)

    @cached_property
    def begins(self) -> Array:
        """The first entry at which each value is alive."""
        return np.maximum(np.array(self.writer, np.intp), 0)

    @cached_property
    def lasts(self) -> Array:
        """The last entry that touches each value."""
        touched = zip(self.readers, self.writer, strict=True)
        return np.array([readers[-1] if readers else max(k, 0) for readers, k in touched], np.intp)


class _Rewriter:
    """Makes the plan with the entries of a replay."""

    def __init__(self, plan: Plan) -> None:
        self.old = plan
        self.values = dict(plan.values)
        self.copies: dict[str, str] = {}

    def plan(self, repeats: Sequence[Repeat]) -> Plan:
        """Returns the plan with repeated calls, which write to copies."""
        entries: list[Call | Delivery] = []
        usual = ((k, entry, False) for k, entry in enumerate(self.old.entries))
        again = ((k, self.old.entries[c], True) for k, c in repeats)
        for _, entry, repeated in merge(again, usual, key=itemgetter(0)):
            if isinstance(entry, Delivery) or not (repeated or self.copies):
                entries.append(entry)
                continue
            arrays = {n: self._current(v) for n, v in entry.arrays.items()}
            if not repeated and arrays == entry.arrays:
                entries.append(entry)
                continue
            label, phase = entry.label, entry.phase
            if repeated:
                label, phase = f"{label} recomputed", Phase.BACKWARD
                for name in (*entry.writes, *entry.workspace):
                    arrays[name] = self._add_copy(entry.arrays[name])
            entries.append(replace(entry, label=label, phase=phase, arrays=arrays))
        return replace(self.old, entries=tuple(entries), values=self.values)

    def _add_copy(self, name: str) -> str:
        """Adds the value to which a repeated call writes; returns its name."""
        copy = self._copy_of(name)
        self.copies[name] = copy
        self.values[copy] = replace(self.values[name], name=copy)
        return copy

    def _copy_of(self, name: str) -> str:
        """Returns a name for a copy; an earlier rewrite may have taken the first ones."""
        copy = f"{name}'"
        return self._copy_of(copy) if copy in self.values else copy

    def _current(self, name: str) -> str:
        """Returns the current name of a value: the name of its recomputed copy, if there is one."""
        value = self.values[name]
        if value.base is None or name in self.copies:
            return self.copies.get(name, name)
        base = self._current(value.base)
        if base == value.base:
            return name
        copy = self._copy_of(name)
        self.copies[name] = copy
        self.values[copy] = replace(value, name=copy, base=base)
        return copy
