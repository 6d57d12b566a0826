"""Lifetimes of the values in a plan's arena, and values that may overlay others."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

from odt.core.planning.plan import Call, Delivery, Plan, Region

BEFORE = -1  # the trainer fills inputs before the first entry


class Lifetime(NamedTuple):
    """The first and the last entry that touches a value, both inclusive."""

    first: int
    last: int

    def meets(self, other: "Lifetime") -> bool:
        """Whether two lifetimes have an entry in common."""
        return self.first <= other.last and other.first <= self.last


def lifetimes(plan: Plan) -> dict[str, Lifetime]:
    """Returns the lifetimes of the values that need memory in the arena: ARENA and INPUT values.

    A value and its views have one lifetime, listed under the name of the value. Inputs live from
    before the first entry, outputs to the end of the forward phase, losses to the end.
    """
    filled = dict.fromkeys(plan.filled, BEFORE)
    first, last = {**filled, **plan.first_touched, **filled}, {**filled, **plan.last_touched}
    if any(delivery.call for delivery in plan.deliveries.values()):
        for since, deliveries in _deliveries_in_a_row(plan):
            until = since + len(deliveries) - 1
            for root in (plan.root(n) for d in deliveries if d.call for n in d.touched):
                first[root], last[root] = min(first[root], since), max(last[root], until)
    end = plan.forward_entries
    for root in map(plan.root, plan.read_after_forward):
        first[root], last[root] = min(first.get(root, end), end), max(last.get(root, end), end)
    last.update(dict.fromkeys(plan.losses, len(plan.entries)))
    values, in_arena = plan.values, (Region.ARENA, Region.INPUT)
    return {
        name: Lifetime(k, last[name])
        for name, k in first.items()
        if values[name].region in in_arena
    }


def lifetimes_without_overlays(plan: Plan) -> dict[str, Lifetime]:
    """Returns lifetimes in which a value that another one overlays ends before the other begins."""
    alive = lifetimes(plan)
    for old in replacements(plan, alive).values():
        alive[old] = Lifetime(alive[old].first, alive[old].last - 1)
    return alive


def live_bytes(plan: Plan, alive: Mapping[str, Lifetime]) -> list[int]:
    """Returns the bytes of the values that are alive at each entry."""
    end = len(plan.entries)
    changes = [0] * (end + 1)
    for name, life in alive.items():
        size = plan.values[name].spec.nbytes
        changes[max(life.first, 0)] += size
        changes[min(life.last + 1, end)] -= size
    return list(accumulate(changes[:-1]))


def _deliveries_in_a_row(plan: Plan) -> Iterator[tuple[int, Sequence[Delivery]]]:
    """Yields deliveries without a call between them, with the first one's entry.

    Workers may make them at the same time, and read each other's values.
    """
    k = 0
    for are_deliveries, group in groupby(plan.entries, lambda entry: isinstance(entry, Delivery)):
        entries = list(group)
        if are_deliveries:
            yield k, [entry for entry in entries if isinstance(entry, Delivery)]
        k += len(entries)


def replacements(plan: Plan, alive: Mapping[str, Lifetime]) -> dict[str, str]:
    """Finds overlays: value → the value whose memory it reuses.

    The result of a call may overlay one of its inputs if the kernel permits it (`may_alias`) for
    every name of the input in that call, and no later entry touches the input.
    """
    overlays: dict[str, str] = {}
    overlaid = set[str]()
    for k, entry in enumerate(plan.entries):
        if not isinstance(entry, Call) or not entry.kernel.may_alias:
            continue
        may_alias = entry.kernel.may_alias
        roots = {n: plan.root(entry.arrays[n]) for n in entry.reads}
        for written in entry.writes:
            new = plan.root(entry.arrays[written])
            if new not in alive or alive[new].first != k:
                continue
            for read, old in roots.items():
                if (
                    (written, read) in may_alias
                    and old in alive
                    and alive[old].last == k
                    and old not in overlaid
                    and plan.nbytes[new] <= plan.nbytes[old]
                    and all((written, n) in may_alias for n, root in roots.items() if root == old)
                ):
                    overlays[new] = old
                    overlaid.add(old)
                    break
    return overlays
