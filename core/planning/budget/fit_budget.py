"""Finds the fastest way to train within a number of bytes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from odt.core.model.training_info import TrainingInfo
from odt.core.planning.budget.forecast import Forecast, forecast
from odt.core.planning.computation import Computation, Plans
from odt.core.planning.cost import step_seconds
from odt.core.planning.rewrites.compress import choose_digests
from odt.core.planning.rewrites.recompute import choose_dropped
from odt.core.planning.rewrites.reorder import choose_order
from odt.core.planning.rewrites.rewritten_plans import RewrittenPlans
from odt.core.planning.schedule import Schedule, available_cores, choose_schedule
from odt.errors import OptionError

# Fractions of the room to aim at: an arena is a little larger than the values alive at once in it.
# The last one drops every activation that saves memory.
MARGINS = (1.0, 0.97, 0.93, 0.88, 0.0)
# What else a budget has to hold, and the options that make it smaller.
LEAVE_OUT = {
    "a cache": '`cache_frozen="disk"`, `cache_dtype="float16"`',
    "a copy of the best weights": "no `keep_best=True`",
    "prepared batches": "no `augment=`",
    "a teacher's outputs": "`teacher_outputs=`",
    "outputs kept for metrics": "no `metrics=auc`",
}


def fit_budget(
    plans: Plans,
    computations: tuple[Computation, ...],
    info: TrainingInfo,
    budget: int | None,
    micro_batch: int | None = None,
    workers: int | None = None,
    *,
    reserves: Mapping[str, int] | None = None,
) -> Forecast:
    """Chooses schedule and plans that keep training within a memory budget.

    Without a budget, or if it suffices, the schedule is that of `choose_schedule`. Otherwise it is
    the one with the least estimated time among those that fit: smaller micro-batches, fewer
    workers, reordered calls, digests, recomputed activations.

    Args:
        plans: plans of the model.
        computations: training first, then validation.
        info: resolved training info.
        budget: bytes; None for no limit.
        micro_batch: samples in a micro-batch; None to choose.
        workers: number of workers; None to choose.
        reserves: bytes of the budget for other uses, by keys of LEAVE_OUT.

    Raises:
        OptionError: if nothing fits, or `micro_batch` or `workers` is not possible.
    """
    batch, reserve = info.batch_size, sum((reserves or {}).values())
    usual = choose_schedule(batch, lambda n: plans.at(computations[0], n), micro_batch, workers)
    if computations[0].begin and usual.workers == 1:  # the frozen part is seldom small
        usual = replace(usual, blas_threads=available_cores())
    found = replace(forecast(plans, computations, info, usual), cache=reserve)
    if budget is None or found.peak <= budget:
        return found
    schedules = [usual] if usual.why else list(_schedules(usual, micro_batch, workers))
    available = budget - reserve
    best: Forecast | None = None
    for s in schedules:
        # Plans of its own for each schedule, so that those of a schedule that loses are freed.
        for found in _rewrites(Plans(plans.graphs), computations, info, s, available):
            if found.peak <= available and (best is None or _seconds(found) < _seconds(best)):
                best = found
    if best is None:
        least = min(
            found.peak for s in schedules for found in _rewrites(plans, computations, info, s, 0)
        )
        others = {what: nbytes for what, nbytes in (reserves or {}).items() if nbytes}
        beside, hint = " and ".join(f"{what} of {_megabytes(n)}" for what, n in others.items()), ""
        if others and least <= budget:
            hint = f"Keep less: {', '.join(LEAVE_OUT[what] for what in others)}."
        raise OptionError(
            "memory_budget",
            f"must be at least {_megabytes(least + reserve)} to train this in batches of "
            f"{batch}{beside and f' beside {beside}'}",
            _rounded_down(budget),
            hint,
        )
    return replace(best, cache=reserve)


def _rewrites(
    plans: Plans,
    computations: tuple[Computation, ...],
    info: TrainingInfo,
    schedule: Schedule,
    budget: int,
) -> Iterator[Forecast]:
    """Forecasts for one schedule: as it is, then with one more rewrite each until it fits."""
    plain = forecast(plans, computations, info, schedule, searched=True)
    yield plain
    if plain.peak <= budget:
        return
    available = max(budget - (plain.peak - plain.arena), 0) // schedule.workers
    order = choose_order(plain.plan)
    reordered = forecast(RewrittenPlans(plans, order), computations, info, schedule, searched=True)
    yield reordered
    if reordered.peak <= budget:
        return
    digests = choose_digests(reordered.plan)
    compressed = forecast(
        RewrittenPlans(plans, order, digests), computations, info, schedule, searched=True
    )
    yield compressed
    if compressed.peak <= budget:
        return
    for margin in MARGINS:
        dropped = choose_dropped(compressed.plan, int(available * margin))
        fewest = RewrittenPlans(plans, order, digests, dropped)
        rewritten = forecast(fewest, computations, info, schedule, searched=True)
        yield rewritten
        if rewritten.peak <= budget or not available:
            return


def _seconds(found: Forecast) -> float:
    s = found.schedule
    return step_seconds(found.plan, s.batch, s.micro_batch, s.workers)


def _schedules(usual: Schedule, micro_batch: int | None, workers: int | None) -> Iterator[Schedule]:
    """Schedules that may need less memory than the usual one.

    Micro-batches of half the size, and so on down to single samples; and the whole batch, which
    needs no memory to add gradients up. Each with every possible number of workers, or with the
    given one.
    """
    batch, cores = usual.batch, available_cores()
    sizes: Sequence[int] = (micro_batch,) if micro_batch else _halves(batch, usual.micro_batch)
    most = -(-batch // sizes[-1])
    for m in sizes:
        for w in [min(workers, most)] if workers else range(1, cores + 1):
            if w <= -(-batch // m):
                yield Schedule(batch, m, w, 1 if w > 1 else cores)


def _halves(batch: int, size: int) -> list[int]:
    sizes = [size] if size == batch else [batch, size]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // 2))
    return sizes


def _megabytes(nbytes: int) -> str:
    """Bytes as the option takes them, rounded up."""
    return f"{-(-nbytes // 100_000) / 10:.1f}MB"


def _rounded_down(nbytes: int) -> str:
    """Bytes rounded down, so that a budget that is too small never looks like the minimum."""
    return f"{nbytes // 100_000 / 10:.1f}MB" if nbytes >= 100_000 else f"{nbytes}B"
