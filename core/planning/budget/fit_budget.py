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

# A worker's arena is a little larger than what is alive in it at once; the last is all that helps.
MARGINS = (1.0, 0.97, 0.93, 0.88, 0.0)
# What a budget may also have to hold, and how less of it is kept.
LEAVE_OUT = {
    "a cache": "--cache-frozen disk, --cache-dtype float16",
    "a copy of the best weights": "no --keep-best",
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
    """The way to train that is taken, and what it needs.

    Without a budget, or where it fits, that is `choose_schedule`'s; else the fastest, by estimate,
    of those that fit: smaller micro-batches, fewer workers, another order of the calls, digests,
    activations computed again.

    Args:
        plans: of the model.
        computations: what runs, training first.
        info: complete.
        budget: bytes; None for as many as it takes.
        micro_batch, workers: if they are given.
        reserves: bytes of it that are for something else, by what it is: keys of LEAVE_OUT.

    Raises:
        OptionError: if nothing fits, or m or W cannot be.
    """
    batch, reserve = info.batch_size, sum((reserves or {}).values())
    usual = choose_schedule(batch, lambda n: plans.at(computations[0], n), micro_batch, workers)
    if computations[0].begin and usual.workers == 1:  # what comes before is seldom small
        usual = replace(usual, blas_threads=available_cores())
    found = replace(forecast(plans, computations, info, usual), cache=reserve)
    if budget is None or found.peak <= budget:
        return found
    schedules = [usual] if usual.why else list(_schedules(usual, micro_batch, workers))
    room = budget - reserve
    best: Forecast | None = None
    for s in schedules:
        for way in _ways(Plans(plans.graph), computations, info, s, room):  # what loses is freed
            if way.peak <= room and (best is None or _seconds(way) < _seconds(best)):
                best = way
    if best is None:
        least = min(way.peak for s in schedules for way in _ways(plans, computations, info, s, 0))
        others = {what: nbytes for what, nbytes in (reserves or {}).items() if nbytes}
        beside, hint = " and ".join(f"{what} of {_megabytes(n)}" for what, n in others.items()), ""
        if others and least <= budget:
            hint = f". Keep less: {', '.join(LEAVE_OUT[what] for what in others)}."
        raise OptionError(
            f"--memory-budget: must be at least {_megabytes(least + reserve)} to train this in "
            f"batches of {batch}{beside and f' beside {beside}'}, "
            f"but got {_rounded_down(budget)}{hint}"
        )
    return replace(best, cache=reserve)


def _ways(
    plans: Plans,
    computations: tuple[Computation, ...],
    info: TrainingInfo,
    schedule: Schedule,
    budget: int,
) -> Iterator[Forecast]:
    """With a schedule as it is, and with as few savings as make it fit."""
    plain = forecast(plans, computations, info, schedule, searched=True)
    yield plain
    if plain.peak <= budget:
        return
    room = max(budget - (plain.peak - plain.arena), 0) // schedule.workers
    order = choose_order(plain.plan)
    neat = forecast(RewrittenPlans(plans, order), computations, info, schedule, searched=True)
    yield neat
    if neat.peak <= budget:
        return
    digests = choose_digests(neat.plan)
    small = forecast(
        RewrittenPlans(plans, order, digests), computations, info, schedule, searched=True
    )
    yield small
    if small.peak <= budget:
        return
    for margin in MARGINS:
        dropped = choose_dropped(small.plan, int(room * margin))
        fewest = RewrittenPlans(plans, order, digests, dropped)
        rewritten = forecast(fewest, computations, info, schedule, searched=True)
        yield rewritten
        if rewritten.peak <= budget or not room:
            return


def _seconds(way: Forecast) -> float:
    s = way.schedule
    return step_seconds(way.plan, s.batch, s.micro_batch, s.workers)


def _schedules(usual: Schedule, micro_batch: int | None, workers: int | None) -> Iterator[Schedule]:
    """Ways to cut a batch that may take less than the usual one.

    Parts half as large, and so on down to single samples; and the whole batch, which needs no
    room for gradients. For each any number of workers, or those that are given where there are as
    many parts.
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
    """As the option takes it, rounded up."""
    return f"{-(-nbytes // 100_000) / 10:.1f}MB"


def _rounded_down(nbytes: int) -> str:
    """What is too little looks so: never as much as what is rounded up."""
    return f"{nbytes // 100_000 / 10:.1f}MB" if nbytes >= 100_000 else f"{nbytes}B"
