"""Holds a memory plan against its plan, knowing nothing of lifetimes: by who owns which bytes."""

import numpy as np

from odt.core.plans.memory import MemoryPlan
from odt.core.plans.plan import Call, Plan, Region

UNIT = 64  # bytes


def faults(plan: Plan, memory: MemoryPlan) -> list[str]:
    """Every way in which running the plan in this memory would go wrong; empty if it is sound.

    Each unit of the arena remembers the value written there last. A value may be read only while
    all its units are its own.
    """
    found = []
    owner = np.full(-(-memory.nbytes // UNIT) + 1, -1)
    numbers = {name: k for k, name in enumerate(plan.values)}

    def units(name: str) -> slice:
        start = memory.offsets[name]
        stop = start + plan.values[name].spec.nbytes
        if start % UNIT:
            found.append(f"{name} begins at {start}, no multiple of {UNIT}")
        if start < 0 or stop > memory.nbytes:
            found.append(f"{name} lies outside the arena")
        return slice(start // UNIT, -(-stop // UNIT))

    def placed(names: tuple[str, ...]) -> list[str]:
        roots = [plan.root(n) for n in names]
        return [r for r in roots if plan.values[r].region in (Region.ARENA, Region.INPUT)]

    def must_own(name: str, where: str) -> None:
        if not (owner[units(name)] == numbers[name]).all():
            found.append(f"{where} reads {name}, of which something has been overwritten")

    for name in placed((*plan.inputs, *plan.targets, *plan.scales)):
        if name in memory.offsets:
            owner[units(name)] = numbers[name]
    for k, step in enumerate(plan.steps):
        if not isinstance(step, Call):
            for name in placed((step.gradient,)):
                must_own(name, f"delivery of {name}")
            continue
        for name in placed(step.values(step.reads)):
            must_own(name, step.label)
        taken: dict[int, str] = {}
        for argument in (*step.writes, *step.workspace):
            (name,) = placed((step.arrays[argument],))
            here = units(name)
            for read in step.reads:
                for other in placed((step.arrays[read],)):
                    there = units(other)
                    if here.start < there.stop and there.start < here.stop:
                        allowed = (argument, read) in step.kernel.may_alias
                        if not allowed or here.start != there.start:
                            found.append(f"{step.label} writes {name} over {other}, which it reads")
            for unit in range(here.start, here.stop):
                if unit in taken:
                    found.append(f"{step.label} writes {name} and {taken[unit]} in one place")
                    break
                taken[unit] = name
            owner[here] = numbers[name]
        if k == plan.forward_steps - 1:
            for name in placed(plan.outputs):
                must_own(name, "the end of the forward phase")
    for name in placed(plan.losses):
        must_own(name, "the end")
    return found
