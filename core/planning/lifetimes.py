"""When each value of a plan's arena is alive, and what may lie in another's place."""

from collections.abc import Mapping
from dataclasses import dataclass

from odt.core.planning.plan import Call, Plan, Region

BEFORE = -1  # the trainer fills inputs before the first step


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The first and the last step that touches a value, both inclusive."""

    first: int
    last: int

    def meets(self, other: "Lifetime") -> bool:
        return self.first <= other.last and other.first <= self.last


def lifetimes(plan: Plan) -> dict[str, Lifetime]:
    """The lifetime of every value that needs a place: of the arena, and of the inputs.

    A value and its views are one, under the name of the one that was made. Inputs are there
    before the first step; outputs stay until the forward phase is over, losses to the end.
    """
    touched: dict[str, list[int]] = {}
    for name in (*plan.inputs, *plan.targets, *plan.scales):
        touched[name] = [BEFORE]
    for k, entry in enumerate(plan.entries):
        names = entry.arrays.values() if isinstance(entry, Call) else (entry.gradient,)
        for name in names:
            touched.setdefault(plan.root(name), []).append(k)
    for name in plan.outputs:
        touched.setdefault(plan.root(name), []).append(plan.forward_entries)
    for name in plan.losses:
        touched[name].append(len(plan.entries))
    return {
        name: Lifetime(min(entries), max(entries))
        for name, entries in touched.items()
        if plan.values[name].region in (Region.ARENA, Region.INPUT)
    }


def replacements(plan: Plan, alive: Mapping[str, Lifetime]) -> dict[str, str]:
    """Value → the value whose memory it takes over, where a call permits it.

    A call's result may lie where one of its inputs lies if the kernel says so for every name the
    input has in that call, and the input is not touched again.
    """
    taken: dict[str, str] = {}
    for k, entry in enumerate(plan.entries):
        if not isinstance(entry, Call):
            continue
        roots = {n: plan.root(v) for n, v in entry.arrays.items()}
        for written in entry.writes:
            new = roots[written]
            for read in entry.reads:
                old = roots[read]
                if (
                    (written, read) in entry.kernel.may_alias
                    and old in alive
                    and alive[old].last == k
                    and alive[new].first == k
                    and old not in taken.values()
                    and plan.values[new].spec.nbytes <= plan.values[old].spec.nbytes
                    and all(
                        (written, n) in entry.kernel.may_alias
                        for n in entry.reads
                        if roots[n] == old
                    )
                ):
                    taken[new] = old
                    break
    return taken


def live_bytes(plan: Plan, alive: Mapping[str, Lifetime]) -> int:
    """The most bytes that are alive in one step: no plan without replacements needs less."""
    sizes = {name: plan.values[name].spec.nbytes for name in alive}
    return max(
        (
            sum(sizes[n] for n, life in alive.items() if life.first <= k <= life.last)
            for k in range(len(plan.entries))
        ),
        default=0,
    )
