"""Bytes saved by each technique that reduces memory."""

from contextlib import suppress

from odt.core.planning.budget.forecast import Forecast
from odt.core.planning.computation import Computation
from odt.core.planning.cost import run_seconds
from odt.core.planning.gradient_sums import by_rows, in_arena
from odt.core.planning.memory import plan_memory
from odt.core.planning.rewrites.compress import use_digests
from odt.core.planning.rewrites.reorder import reorder
from odt.core.planning.rewrites.rewritten_plans import RewrittenPlans
from odt.dataclass import dataclass
from odt.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class Saving:
    """Bytes saved by one technique.

    Attributes:
        name: name of the technique.
        nbytes: bytes that it saves in all arenas, in addition to the techniques before it.
        note: description of where it applies.
    """

    name: str
    nbytes: int
    note: str


def savings(forecast: Forecast, computation: Computation) -> list[Saving]:
    """Returns the bytes saved by each technique; techniques that save nothing are left out.

    Args:
        forecast: forecast of the chosen plans and schedule.
        computation: computation of a training step.
    """
    schedule = forecast.schedule
    plans = (
        forecast.plans
        if isinstance(forecast.plans, RewrittenPlans)
        else RewrittenPlans(forecast.plans)
    )
    plain, usual = plans.usual.at(computation, schedule.micro_batch)
    without_overlays = plan_memory(plain, overlays=False).nbytes
    ordered = reorder(plain, plans.order)
    reordered = plan_memory(ordered).nbytes
    digested = use_digests(ordered, plans.digests)
    compressed = plan_memory(digested).nbytes
    recomputed = plans.at(computation, schedule.micro_batch)[1].nbytes
    tables = {d.parameter for d in forecast.running.deliveries.values() if d.by_rows}
    with_rows = recomputed
    if tables:
        plan = plans.plan(computation, schedule.micro_batch)
        with_rows = plan_memory(by_rows(plan, tables)).nbytes
    in_blocks = plan_memory(in_arena(forecast.running)).nbytes
    repeated = len(forecast.plan.entries) - len(digested.entries)
    longer = run_seconds(forecast.plan) / run_seconds(digested) - 1
    rows = [
        Saving(
            "reuse",
            schedule.workers * (usual.separate - without_overlays),
            "by values with disjoint lifetimes",
        ),
        Saving(
            "in place",
            schedule.workers * (without_overlays - usual.nbytes),
            "results written over operands",
        ),
        Saving(
            "reordering",
            schedule.workers * (usual.nbytes - reordered),
            "branches and gradients one by one",
        ),
        Saving(
            "compression",
            schedule.workers * (reordered - compressed),
            f"of activations to bits or bytes, for {len(plans.digests)} gradients",
        ),
        Saving(
            "recomputation",
            schedule.workers * (compressed - recomputed),
            f"of {repeated} calls in backward: about {longer:.0%} more time",
        ),
        Saving(
            "rows",
            schedule.workers * (recomputed - with_rows),
            "gradients of the rows of tables that a step reads",
        ),
        Saving(
            "blocks",
            schedule.workers * (with_rows - in_blocks),
            "of large gradients, each used at once",
        ),
        Saving(
            "sums",
            schedule.workers * (in_blocks - forecast.memory.nbytes),
            "by gradients that kernels add to their sums directly",
        ),
    ]
    if schedule.micro_batch < schedule.batch:
        note = "against one micro-batch on one worker"
        with suppress(UnsupportedError):  # a model whose shapes are only for one sample
            whole = plans.usual.at(computation, schedule.batch)[1].nbytes
            rows.insert(0, Saving("micro-batches", whole - schedule.workers * usual.nbytes, note))
    sizes = forecast.plan.gradient_nbytes.items()
    trained = schedule.workers * sum(nbytes for name, nbytes in sizes if name not in tables)
    if schedule.batch <= schedule.workers * schedule.micro_batch and forecast.gradients < trained:
        saved = trained - forecast.gradients
        rows.append(Saving("immediate update", saved, "when a gradient is complete"))
    elif schedule.workers > 1:
        saved = trained - forecast.gradients
        rows.append(Saving("shared gradients", saved, "large ones have one sum"))
    return [row for row in rows if row.nbytes]
