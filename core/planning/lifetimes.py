"""Lifetimes of the values in a plan's arena, and values that may overlay others."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate

from odt.core.planning.plan import Call, Delivery, Plan, Region
from odt.dataclass import dataclass

BEFORE = -1  # the trainer fills inputs before the first entry


@dataclass(frozen=True, slots=True)
class Lifetime:
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
    roots = plan.roots
    first = dict.fromkeys(plan.filled, BEFORE)
    last = dict(first)
    in_blocks: list[int] = []
    for k, entry in enumerate(plan.entries):
        for name in entry.touched:
            root = roots.get(name, name)
            first.setdefault(root, k)
            last[root] = k
        if isinstance(entry, Delivery) and entry.call:
            in_blocks.append(k)
    for k in in_blocks:
        since, until = _neighbors(plan, k)
        for root in map(plan.root, plan.entries[k].touched):
            first[root], last[root] = min(first[root], since), max(last[root], until)
    end = plan.forward_entries
    for root in map(plan.root, plan.read_after_forward):
        first[root], last[root] = min(first.get(root, end), end), max(last.get(root, end), end)
    last.update(dict.fromkeys(plan.losses, len(plan.entries)))
    return {
        name: Lifetime(k, last[name])
        for name, k in first.items()
        if plan.values[name].region in (Region.ARENA, Region.INPUT)
    }


def lifetimes_without_overlays(plan: Plan) -> dict[str, Lifetime]:
    """Returns lifetimes in which a value that another one overlays ends before the other begins."""
    alive = lifetimes(plan)
    for old in replacements(plan, alive).values():
        alive[old] = replace(alive[old], last=alive[old].last - 1)
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


def _neighbors(plan: Plan, k: int) -> tuple[int, int]:
    """Returns the first and the last of the deliveries in a row that include entry k.

    Workers may make them at the same time, and read each other's values.
    """
    first = last = k
    while first and isinstance(plan.entries[first - 1], Delivery):
        first -= 1
    while last + 1 < len(plan.entries) and isinstance(plan.entries[last + 1], Delivery):
        last += 1
    return first, last


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
        roots = {n: plan.root(v) for n, v in entry.arrays.items()}
        for written in entry.writes:
            new = roots[written]
            for read in entry.reads:
                old = roots[read]
                if (
                    (written, read) in entry.kernel.may_alias
                    and old in alive
                    and new in alive
                    and alive[old].last == k
                    and alive[new].first == k
                    and old not in overlaid
                    and plan.values[new].spec.nbytes <= plan.values[old].spec.nbytes
                    and all(
                        (written, n) in entry.kernel.may_alias
                        for n in entry.reads
                        if roots[n] == old
                    )
                ):
                    overlays[new] = old
                    overlaid.add(old)
                    break
    return overlays
