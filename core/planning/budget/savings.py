"""Bytes saved by each technique that reduces memory."""

from collections.abc import Collection, Iterator
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
    ordered = reorder(plain, plans.order)
    digested = use_digests(ordered, plans.digests)
    tables = {d.parameter for d in forecast.running.deliveries.values() if d.by_rows}
    repeated = len(forecast.plan.entries) - len(digested.entries)
    longer = run_seconds(forecast.plan) / run_seconds(digested) - 1
    recomputed = plans.at(computation, schedule.micro_batch)[1].nbytes
    with_rows = recomputed
    if tables:
        plan = plans.plan(computation, schedule.micro_batch)
        with_rows = plan_memory(by_rows(plan, tables)).nbytes
    reordered = plan_memory(ordered).nbytes if plans.order else usual.nbytes
    compressed = plan_memory(digested).nbytes if plans.digests else reordered
    running, memory = forecast.running, forecast.memory
    in_blocks = in_arena(running)
    arenas = (  # technique, size of an arena with it and those before it, note
        ("reuse", plan_memory(plain, overlays=False).nbytes, "by values with disjoint lifetimes"),
        ("in place", usual.nbytes, "results written over operands"),
        ("reordering", reordered, "branches and gradients one by one"),
        (
            "compression",
            compressed,
            f"of activations to bits or bytes, for {len(plans.digests)} gradients",
        ),
        (
            "recomputation",
            recomputed,
            f"of {repeated} calls in backward: about {longer:.0%} more time",
        ),
        ("rows", with_rows, "gradients of the rows of tables that a step reads"),
        (
            "blocks",
            memory.nbytes if in_blocks is running else plan_memory(in_blocks).nbytes,
            "of large gradients, each used at once",
        ),
        ("sums", memory.nbytes, "by gradients that kernels add to their sums directly"),
    )
    rows: list[Saving] = []
    if schedule.micro_batch < schedule.batch:
        note = "against one micro-batch on one worker"
        with suppress(UnsupportedError):  # a model whose shapes are only for one sample
            whole = plans.usual.at(computation, schedule.batch)[1].nbytes
            rows.append(Saving("micro-batches", whole - schedule.workers * usual.nbytes, note))
    before = usual.separate
    for name, after, note in arenas:
        rows.append(Saving(name, schedule.workers * (before - after), note))
        before = after
    rows += _savings_of_sums(forecast, tables)
    return [row for row in rows if row.nbytes]


def _savings_of_sums(forecast: Forecast, tables: Collection[str]) -> Iterator[Saving]:
    """Yields what is saved in the sums of gradients, outside of the arenas.

    Args:
        forecast: as for `savings`.
        tables: parameters whose gradients are summed by rows, which are not counted.
    """
    schedule = forecast.schedule
    sizes = forecast.plan.gradient_nbytes.items()
    trained = schedule.workers * sum(nbytes for name, nbytes in sizes if name not in tables)
    saved = trained - (forecast.gradients - forecast.row_sums)
    if schedule.batch <= schedule.workers * schedule.micro_batch and saved > 0:
        yield Saving("immediate update", saved, "when a gradient is complete")
    elif schedule.workers > 1:
        yield Saving("shared gradients", saved, "large ones have one sum")
