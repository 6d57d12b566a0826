"""Meetings of workers: the points of a plan where they add up or use large gradients together."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from odt.core.planning.lifetimes import lifetimes_without_overlays, live_bytes
from odt.core.planning.memory import MemoryPlan, plan_memory
from odt.core.planning.plan import Call, Delivery, Plan

# Fractions of the arena to aim at, because it is slightly larger than the values alive at once.
MARGINS = (0.97, 0.6)
Groups = Sequence[Sequence[str]]


def choose_meetings(
    plan: Plan, memory: MemoryPlan, met: Collection[str]
) -> tuple[Groups, Plan, MemoryPlan]:
    """Returns the parameters of each meeting, the gathered plan, and its memory plan.

    There are as few meetings as the arena has memory for: in each, all workers wait for the last
    one, which another process may have displaced.

    Args:
        plan: plan for a micro-batch.
        memory: its memory plan.
        met: parameters for whose gradients workers meet.
    """
    live = live_bytes(plan, lifetimes_without_overlays(plan))
    for margin in MARGINS:
        groups = _within(plan, live, int(memory.nbytes * margin), met)
        gathering = gathered(plan, groups)
        placed = plan_memory(gathering, below=memory.nbytes + 1)
        if placed.nbytes <= memory.nbytes:
            return groups, gathering, placed
    return [(name,) for name in plan.parameters if name in met], plan, memory


def gathered(plan: Plan, groups: Groups) -> Plan:
    """Returns the plan with the deliveries of each group at the place of its last one."""
    lasts = {group[-1]: group for group in groups}
    waiting = {name for group in groups for name in group[:-1]}
    entries: list[Call | Delivery] = []
    for entry in plan.entries:
        if isinstance(entry, Call):
            entries.append(entry)
        elif entry.parameter not in waiting:
            entries += [
                plan.deliveries[name] for name in lasts.get(entry.parameter, (entry.parameter,))
            ]
    return replace(plan, entries=tuple(entries))


def _within(plan: Plan, live: Sequence[int], nbytes: int, met: Collection[str]) -> Groups:
    """Returns groups whose gradients, beside the values of the plan, take so many bytes."""
    groups: list[list[str]] = []
    group: list[str] = []
    nbytes_in_group = 0
    for entry, alive in zip(plan.entries, live, strict=True):
        if group and alive + nbytes_in_group > nbytes:
            groups.append(group)
            group, nbytes_in_group = [], 0
        if isinstance(entry, Delivery) and entry.parameter in met:
            group.append(entry.parameter)
            nbytes_in_group += plan.values[entry.gradient].spec.nbytes
    return [*groups, group] if group else groups
