"""Reorders the calls of a plan so that fewer bytes are alive at once.

Branches can be computed one after the other or interleaved; a gradient can be used immediately or
later. Finding the best order is a hard problem. This is a greedy search, from the front and from
the back, that always chooses the call that leaves the fewest bytes alive. No bit of the results
changes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from odt.core.planning.memory import plan_memory
from odt.core.planning.plan import Call, Delivery, Plan, Region

Edges = list[set[int]]


def reorder(plan: Plan, order: Sequence[str]) -> Plan:
    """Returns the plan with its entries in another order.

    Args:
        plan: plan of a training step.
        order: names of its entries (`entry_name`); empty for the plan's own order.
    """
    if not order:
        return plan
    rank = {name: k for k, name in enumerate(order)}
    entries = sorted(plan.entries, key=lambda entry: rank[entry_name(entry)])
    return replace(plan, entries=tuple(entries))


def entry_name(entry: Call | Delivery) -> str:
    """Returns the name of an entry for any batch size: its first result or its gradient."""
    if isinstance(entry, Delivery):
        return f"deliver {entry.gradient}"
    return entry.arrays[entry.writes[0]]


def choose_order(plan: Plan) -> tuple[str, ...]:
    """Returns the best of some orders, as names of entries; empty for the plan's own order."""
    names = [entry_name(entry) for entry in plan.entries]
    best: tuple[str, ...] = ()
    least = plan_memory(plan).nbytes
    segments = _Segments(plan)
    for back in (False, True):
        order = tuple(names[k] for k in segments.order(back=back))
        nbytes = plan_memory(reorder(plan, order), below=least).nbytes
        if nbytes < least:
            best, least = order, nbytes
    return best


class _Segments:
    """Dependencies between the entries of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.count = len(plan.entries)
        self.reads = [self._roots(_reads(entry)) for entry in plan.entries]
        self.makes = [self._roots(_makes(entry)) for entry in plan.entries]
        self.sizes = {
            name: v.spec.nbytes
            for name, v in plan.values.items()
            if v.base is None and v.region in (Region.ARENA, Region.INPUT)
        }
        touched = zip(self.reads, self.makes, strict=True)
        self.touches = [(reads | makes) & self.sizes.keys() for reads, makes in touched]
        self.maker = {name: k for k, names in enumerate(self.makes) for name in names}
        self.after: Edges = [set() for _ in plan.entries]
        for k, names in enumerate(self.reads):
            for name in names & self.maker.keys():
                self.after[self.maker[name]].add(k)
        self._hold_updates()

    def _roots(self, names: Iterable[str]) -> set[str]:
        return {self.plan.root(n) for n in names}

    def _hold_updates(self) -> None:
        """Makes a delivery wait for all readers of its parameter and of values computed from it.

        Such values may be recomputed.
        """
        entries, forward = self.plan.entries, self.plan.forward_entries
        for k, entry in enumerate(entries):
            if not isinstance(entry, Delivery):
                continue
            parameter = self.plan.root(entry.parameter)
            results: set[str] = {parameter}
            for c in range(forward):
                if self.reads[c] & results:
                    results |= self.makes[c]
            for c in range(forward, self.count):
                if c != k and isinstance(entries[c], Call) and self.reads[c] & results:
                    self.after[c].add(k)

    def order(self, *, back: bool) -> list[int]:
        """Returns the order of all entries; each phase is searched from its front or its back."""
        forward = self.plan.forward_entries
        return [
            k
            for first, last in ((0, forward), (forward, self.count))
            for k in self._segment(range(first, last), back)
        ]

    def _segment(self, entries: range, back: bool) -> list[int]:
        """Returns the order of the entries of a phase."""
        following, waiting = self._edges(entries, back)
        users, alive, stays = self._touches(entries, back)
        ready = [k for k in entries if not waiting[k]]
        order: list[int] = []

        def grows(k: int) -> int:
            """Returns the bytes by which an entry increases the memory alive."""
            names = self.touches[k]
            new = sum(self.sizes[n] for n in names - alive)
            return new - sum(self.sizes[n] for n in names - stays if users[n] == 1)

        while ready:
            k = min(ready, key=lambda k: (grows(k), -k if back else k))
            ready.remove(k)
            order.append(k)
            for n in self.touches[k]:
                users[n] -= 1
                alive.add(n)
            for other in following[k]:
                waiting[other] -= 1
                if not waiting[other]:
                    ready.append(other)
        return order[::-1] if back else order

    def _edges(self, entries: range, back: bool) -> tuple[dict[int, set[int]], dict[int, int]]:
        """Returns for each entry the entries that wait for it, and the number that it waits for."""
        following: dict[int, set[int]] = {k: set() for k in entries}
        for k in entries:
            for other in self.after[k]:
                if other in entries:
                    following[other if back else k].add(k if back else other)
        waiting = dict.fromkeys(entries, 0)
        for others in following.values():
            for k in others:
                waiting[k] += 1
        return following, waiting

    def _touches(self, entries: range, back: bool) -> tuple[dict[str, int], set[str], set[str]]:
        """Counts the entries that touch each value; returns also the values alive at both ends."""
        users: dict[str, int] = {}
        for k in entries:
            for n in self.touches[k]:
                users[n] = users.get(n, 0) + 1
        before = {n for n in users if self.maker.get(n, -1) not in entries}
        outside = set(range(entries.stop, self.count))
        later = {n for k in outside for n in self.reads[k]} | set(self.plan.losses)
        later |= self._roots(self.plan.read_after_forward)
        return (users, later, before) if back else (users, before, later)


def _reads(entry: Call | Delivery) -> tuple[str, ...]:
    if isinstance(entry, Delivery):
        return (entry.gradient,)
    return entry.values(entry.reads)


def _makes(entry: Call | Delivery) -> tuple[str, ...]:
    if isinstance(entry, Delivery):
        return ()
    return entry.values((*entry.writes, *entry.workspace))
