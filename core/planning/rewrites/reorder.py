"""Reorders the calls of a plan so that fewer bytes are alive at once.

Branches can be computed one after the other or interleaved; a gradient can be used immediately or
later. Finding the best order is a hard problem. This is a greedy search, from the front and from
the back, that always chooses the call that leaves the fewest bytes alive. No bit of the results
changes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from heapq import heappop, heappush

from odt.core.planning.memory import plan_memory
from odt.core.planning.plan import Call, Delivery, Plan, Region

# Share of an arena that an order must save: one that saves less often puts off gradients, and then
# recomputation saves little.
LEAST_SAVED = 1 / 128

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


def choose_order(plan: Plan, least: int) -> tuple[str, ...]:
    """Returns the best of some orders, as names of entries; empty for the plan's own order.

    Orders that save little are left out.

    Args:
        plan: plan of a training step.
        least: bytes of its arena in its own order.
    """
    names = [entry_name(entry) for entry in plan.entries]
    best: tuple[str, ...] = ()
    least -= int(least * LEAST_SAVED)
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
        # Nodes beside the entries wait, too: see `_hold_updates`.
        self.after: Edges = [set() for _ in range(self.count + plan.forward_entries)]
        for k, names in enumerate(self.reads):
            for name in names & self.maker.keys():
                self.after[self.maker[name]].add(k)
        self._hold_updates()

    def _roots(self, names: Iterable[str]) -> set[str]:
        return {self.plan.root(n) for n in names}

    def _hold_updates(self) -> None:
        """Makes a delivery wait for all readers of its parameter and of values computed from it.

        Such values may be recomputed. For each forward call there is a node, which waits for the
        readers of its results in the backward phase, and for the nodes of those in the forward
        phase; the delivery waits for the nodes of the parameter's readers.
        """
        forward = self.plan.forward_entries
        readers: dict[str, list[int]] = {}
        for c, names in enumerate(self.reads):
            for name in names:
                readers.setdefault(name, []).append(c)

        def hold(node: int, names: Iterable[str]) -> None:
            for c in (c for name in names for c in readers.get(name, ())):
                if c < forward:
                    self.after[self.count + c].add(node)
                elif isinstance(self.plan.entries[c], Call):
                    self.after[c].add(node)

        for c in range(forward):
            hold(self.count + c, self.makes[c])
        for k, entry in enumerate(self.plan.entries):
            if isinstance(entry, Delivery):
                hold(k, [self.plan.root(entry.parameter)])

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
        touched_by: dict[str, list[int]] = {}
        for k in entries:
            for n in self.touches[k]:
                touched_by.setdefault(n, []).append(k)
        grown: dict[int, int] = {}  # ready entry → bytes by which it increases the memory alive
        ready: list[tuple[int, int, int]] = []  # heap of these bytes and of entries, also old ones

        def grows(k: int) -> int:
            names = self.touches[k]
            new = sum(self.sizes[n] for n in names - alive)
            return new - sum(self.sizes[n] for n in names - stays if users[n] == 1)

        def offer(k: int) -> None:
            grown[k] = grows(k)
            heappush(ready, (grown[k], -k if back else k, k))

        def release(nodes: Iterable[int]) -> None:
            released = [k for k in nodes if not waiting[k]]
            while released:
                k = released.pop()
                if k < self.count:
                    offer(k)
                else:
                    released += after(k)

        def after(node: int) -> list[int]:
            """Returns the nodes that waited for this one last."""
            for other in following[node]:
                waiting[other] -= 1
            return [other for other in following[node] if not waiting[other]]

        release(list(waiting))
        order: list[int] = []
        while ready:
            nbytes, _, k = heappop(ready)
            if grown.get(k) != nbytes:
                continue
            del grown[k]
            order.append(k)
            for n in self.touches[k]:
                users[n] -= 1
                alive.add(n)
            for n in self.touches[k]:
                for other in touched_by[n]:
                    if other in grown and grown[other] != grows(other):
                        offer(other)
            release(after(k))
        return order[::-1] if back else order

    def _edges(self, entries: range, back: bool) -> tuple[dict[int, set[int]], dict[int, int]]:
        """Returns for each node the nodes that wait for it, and the number that it waits for."""
        nodes = dict.fromkeys(entries)
        if entries.stop == self.count:
            nodes |= dict.fromkeys(range(self.count, len(self.after)))
        following: dict[int, set[int]] = {k: set() for k in nodes}
        for k in nodes:
            for other in self.after[k]:
                if other in nodes:
                    following[other if back else k].add(k if back else other)
        waiting = dict.fromkeys(nodes, 0)
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
