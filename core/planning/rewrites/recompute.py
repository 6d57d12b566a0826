"""Recomputes activations in the backward phase instead of saving them (gradient checkpointing).

A forward call is repeated immediately before the first backward call that reads its result,
together with the calls whose results it reads, unless those are saved. A recomputed value lives
until its last reader, so no call is repeated twice. A repeated call runs before the weights that it
reads are updated, because backward visits the nodes in reverse order.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from odt.core.planning.cost import call_seconds
from odt.core.planning.plan import Call, Delivery, Phase, Plan, Region

Replay = list[tuple[int, bool]]  # entries of the plan; True for a repeated forward call


def recompute(plan: Plan, dropped: Collection[str]) -> Plan:
    """Rewrites a plan so that some values are recomputed.

    Args:
        plan: plan of a training step.
        dropped: values of the forward phase; all results of a call are dropped together.
    """
    return _Rewriter(plan).plan(_Droppable(plan).order(dropped))


def choose_dropped(plan: Plan, targets: Sequence[int]) -> Iterator[frozenset[str]]:
    """Chooses values to drop, so that at most `target` bytes are alive at once, at low cost.

    Repeatedly drops the value that frees the most bytes at the peak per second of recomputation,
    until the peak fits or nothing helps. Then values that need not have been dropped are saved
    again.

    Args:
        plan: plan of a training step.
        targets: falling numbers of bytes; there is a choice for each.
    """
    droppable = _Droppable(plan)
    bytes_per_second = droppable.bytes_per_second()
    dropped: set[str] = set()
    useless: set[str] = set()
    most, at = droppable.most_alive(dropped)
    for target in targets:
        while most > target:
            candidates = [
                n
                for n in droppable.saved_only_for_later(dropped, at)
                if n in bytes_per_second and n not in useless
            ]
            if not candidates:
                break
            name = max(candidates, key=bytes_per_second.__getitem__)
            new_most, place = droppable.most_alive({*dropped, name})
            if new_most > most:
                useless.add(name)
                continue
            dropped.add(name)
            most, at = new_most, place
        needed = set(dropped)
        for name in sorted(dropped, key=lambda n: (bytes_per_second[n], n)):
            if droppable.most_alive(needed - {name})[0] <= max(most, target):
                needed.remove(name)
        yield frozenset(needed)


class _Droppable:
    """The values of a training plan that may be dropped, and the bytes alive without them."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.forward = plan.forward_entries
        self.reads: list[set[str]] = []
        self.writes: list[set[str]] = []
        for entry in plan.entries:
            if isinstance(entry, Delivery):
                self.reads.append(self._roots((entry.gradient,)))
                self.writes.append(set())
            else:
                self.reads.append(self._roots(entry.values(entry.reads)))
                self.writes.append(self._roots(entry.values((*entry.writes, *entry.workspace))))
        self.maker = {name: k for k in range(self.forward) for name in sorted(self.writes[k])}
        self.needs = [[self.maker[n] for n in names if n in self.maker] for names in self.reads]
        later = set().union(*self.reads[self.forward :])
        self.saved = [n for n in self.maker if n in later]  # in the order of the steps, for ties
        self.sizes = {
            name: v.spec.nbytes
            for name, v in plan.values.items()
            if v.base is None and v.region in (Region.ARENA, Region.INPUT)
        }

    @cached_property
    def overlays(self) -> list[list[tuple[str, str]]]:
        """Pairs of a result and an operand that it may overlay, by entry."""
        return [_overlays(self.plan, e) if isinstance(e, Call) else [] for e in self.plan.entries]

    def _roots(self, names: Iterable[str]) -> set[str]:
        roots = {self.plan.root(n) for n in names}
        return {n for n in roots if self.plan.values[n].region in (Region.ARENA, Region.INPUT)}

    def bytes_per_second(self) -> dict[str, float]:
        """Returns the bytes freed per second of recomputation, by value that may be dropped."""
        rates = {}
        for name in self.saved:
            call = self.plan.entries[self.maker[name]]
            assert isinstance(call, Call)
            if not self.writes[self.maker[name]].intersection(self.plan.losses):
                rates[name] = self.sizes[name] / call_seconds(self.plan, call)
        return rates

    def order(self, dropped: Collection[str]) -> Replay:
        """Returns the plan's entries; repeated calls precede the first entries that need them."""
        dropped_calls = {self.maker[name] for name in dropped if name in self.maker}
        saved = set(self.saved)
        order = [(k, False) for k in range(self.forward)]
        repeated_calls: set[int] = set()
        for k in range(self.forward, len(self.plan.entries)):
            repeated = dropped_calls.intersection(self.needs[k]) - repeated_calls
            pending = list(repeated)
            while pending:
                for name in self.reads[pending.pop()]:
                    c = self.maker.get(name, -1)
                    is_saved = name in saved and c not in dropped_calls
                    if c >= 0 and not is_saved and c not in repeated_calls and c not in repeated:
                        repeated.add(c)
                        pending.append(c)
            order += [(c, True) for c in sorted(repeated)]
            repeated_calls |= repeated
            order.append((k, False))
        return order

    def replay_lifetimes(self, order: Replay) -> dict[tuple[str, bool], tuple[int, int]]:
        """Returns first and last place of each value in a replay, recomputed ones separately."""
        lifetimes: dict[tuple[str, bool], tuple[int, int]] = {}
        repeated_calls: set[int] = set()
        for place, (k, repeated) in enumerate(order):
            if repeated:
                repeated_calls.add(k)
            for name in self.reads[k]:
                key = (name, self.maker.get(name, -1) in repeated_calls)
                lifetimes[key] = (lifetimes.get(key, (0, 0))[0], place)
            for name in self.writes[k]:
                lifetimes[(name, repeated)] = (place, place)
        for name in self.plan.losses:
            lifetimes[(name, False)] = (lifetimes[(name, False)][0], len(order) - 1)
        for name in self.plan.read_after_forward:
            key = (self.plan.root(name), False)
            if key in lifetimes:
                first, last = lifetimes[key]
                lifetimes[key] = (first, max(last, self.forward))
        return lifetimes

    def most_alive(self, dropped: Collection[str]) -> tuple[int, int]:
        """Returns the most bytes alive at once, and the place in the replay."""
        order = self.order(dropped)
        replay_lifetimes = self.replay_lifetimes(order)
        change = [0] * (len(order) + 1)
        for (name, _), (first, last) in replay_lifetimes.items():
            change[first] += self.sizes[name]
            change[last + 1] -= self.sizes[name]
        alive, most, at = 0, 0, 0
        repeated_calls: set[int] = set()
        for place, (k, repeated) in enumerate(order):
            if repeated:
                repeated_calls.add(k)
            alive += change[place]
            overlaid = 0
            for written, read in self.overlays[k]:
                key = (read, self.maker.get(read, -1) in repeated_calls)
                if replay_lifetimes[key][1] == place and self.sizes[written] <= self.sizes[read]:
                    overlaid += self.sizes[written]
            if alive - overlaid > most:
                most, at = alive - overlaid, place
        return most, at

    def saved_only_for_later(self, dropped: Collection[str], at: int) -> list[str]:
        """Returns values that are saved at a place of the replay only for a later place.

        To drop others would not help there: the entry at this place touches them, a later forward
        call needs them, or an earlier backward call has read them already.
        """
        order = self.order(dropped)
        before: set[str] = set()
        for k, _ in order[: at + 1]:
            before |= self.writes[k]
        excluded = self.reads[order[at][0]] | self.writes[order[at][0]] | set(dropped)
        after: set[str] = set()
        for k, repeated in order[at + 1 :]:
            if k < self.forward and not repeated:
                excluded |= self.reads[k]
            after |= self.reads[k]
        for k, repeated in order[self.forward : at]:
            if not repeated:
                excluded |= self.reads[k]
        return [n for n in self.saved if n in before and n in after and n not in excluded]


def _overlays(plan: Plan, call: Call) -> list[tuple[str, str]]:
    """Returns pairs of a result of a call and an operand that it may overlay."""
    pairs = []
    for written in call.writes:
        for read in call.reads:
            if (written, read) in call.kernel.may_alias:
                pairs.append((plan.root(call.arrays[written]), plan.root(call.arrays[read])))
                break
    return [(w, r) for w, r in pairs if plan.values[r].region in (Region.ARENA, Region.INPUT)]


class _Rewriter:
    """Makes the plan with the entries of a replay."""

    def __init__(self, plan: Plan) -> None:
        self.old = plan
        self.values = dict(plan.values)
        self.copies: dict[str, str] = {}

    def plan(self, order: Replay) -> Plan:
        """Returns the plan with the entries of a replay; repeated calls write to copies."""
        entries: list[Call | Delivery] = []
        for k, repeated in order:
            entry = self.old.entries[k]
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
