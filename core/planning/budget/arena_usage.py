"""Bytes in use in the arenas at each entry of a plan, by kind of value."""

from odt.core.planning.lifetimes import lifetimes, replacements
from odt.core.planning.plan import Delivery, Phase, Plan, Region


def arena_usage(plan: Plan, workers: int) -> dict[str, list[int]]:
    """Returns the bytes in use at each entry of a plan, for all workers together, by kind of value.

    A value that overlays another one replaces it in the count from its first entry on.

    Returns:
        "data", "activations", "gradients" and "workspace" → one number for each entry.
    """
    alive = lifetimes(plan)
    ends = {name: life.last for name, life in alive.items()}
    for old in replacements(plan, alive).values():
        ends[old] -= 1
    kinds = _kinds(plan)
    usage = {
        kind: [0] * len(plan.entries) for kind in ("data", "activations", "gradients", "workspace")
    }
    for name, life in alive.items():
        row = usage[kinds.get(name, "data")]
        for k in range(max(life.first, 0), min(ends[name] + 1, len(row))):
            row[k] += plan.values[name].spec.nbytes * workers
    return usage


def _kinds(plan: Plan) -> dict[str, str]:
    """Returns the kind of every value that a call writes."""
    kinds: dict[str, str] = {}
    for entry in plan.entries:
        if isinstance(entry, Delivery):
            kinds.setdefault(entry.gradient, "gradients")  # if it is computed in blocks
        else:
            recomputed = entry.label.endswith(" recomputed")
            kind = "activations" if entry.phase is Phase.FORWARD or recomputed else "gradients"
            kinds.update(dict.fromkeys(entry.values(entry.writes), kind))
            kinds.update(dict.fromkeys(entry.values(entry.workspace), "workspace"))
    return {n: k for n, k in kinds.items() if plan.values[n].region is Region.ARENA}
