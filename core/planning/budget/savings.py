"""What each way of saving memory saves."""

from dataclasses import dataclass

from odt.core.planning.budget.forecast import Forecast
from odt.core.planning.cost import run_seconds
from odt.core.planning.memory import plan_memory
from odt.core.planning.rewrites.compress import use_digests
from odt.core.planning.rewrites.reorder import reorder
from odt.core.planning.rewrites.rewritten_plans import LeanPlans
from odt.core.planning.work import Work


@dataclass(frozen=True, slots=True)
class Share:
    """One way.

    Attributes:
        name: of it.
        nbytes: that all arenas together would take more without it, if the ways named before it
            are used and those after it are not.
        note: to what it applies.
    """

    name: str
    nbytes: int
    note: str


def shares(found: Forecast, work: Work) -> list[Share]:
    """Of a way to train, each with something to say.

    Args:
        found: the way.
        work: of a training step.
    """
    s = found.schedule
    lean = found.plans if isinstance(found.plans, LeanPlans) else LeanPlans(found.plans)
    plain, usual = lean.usual.at(work, s.micro_batch)
    apart = plan_memory(plain, overlays=False).nbytes
    ordered = reorder(plain, lean.order)
    neat = plan_memory(ordered).nbytes
    rewritten = use_digests(ordered, lean.digests)
    small = plan_memory(rewritten).nbytes
    repeated = len(found.plan.steps) - len(rewritten.steps)
    longer = run_seconds(found.plan) / run_seconds(rewritten) - 1
    rows = [
        Share("one place", s.workers * (usual.separate - apart), "for values that never meet"),
        Share("overlays", s.workers * (apart - usual.nbytes), "results where operands were"),
        Share("order", s.workers * (usual.nbytes - neat), "branches and gradients one by one"),
        Share(
            "digests",
            s.workers * (neat - small),
            f"bits and bytes for backward: {len(lean.digests)} gradients",
        ),
        Share(
            "again",
            s.workers * (small - found.memory.nbytes),
            f"{repeated} calls made again in backward: about {longer:.0%} more time",
        ),
    ]
    if s.micro_batch < s.batch:
        whole = lean.usual.at(work, s.batch)[1].nbytes
        note = "against the whole batch on one worker"
        rows.insert(0, Share("cut", whole - s.workers * usual.nbytes, note))
    elif not found.gradients:
        trained = sum(found.plan.gradient_nbytes.values())
        rows.append(Share("at once", trained, "no gradient waits for the others"))
    return [row for row in rows if row.nbytes]
