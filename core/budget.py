"""Finds the fastest way to train within a number of bytes."""

from collections.abc import Iterator

from odt.core.cost import step_seconds
from odt.core.engine import Plans, Work
from odt.core.forecast import Forecast, forecast
from odt.core.schedule import Schedule, available_cores, choose_schedule
from odt.core.training_info import TrainingInfo
from odt.errors import OptionError


def fit(
    plans: Plans,
    works: tuple[Work, ...],
    info: TrainingInfo,
    budget: int | None,
    micro_batch: int | None = None,
    workers: int | None = None,
) -> Forecast:
    """The way to train that is taken, and what it needs.

    Without a budget, or where it fits, that is `choose_schedule`'s; else the fastest, by estimate,
    of those that fit.

    Args:
        plans: of the model.
        works: what runs, training first.
        info: complete.
        budget: bytes; None for as many as it takes.
        micro_batch, workers: if they are given.

    Raises:
        OptionError: if nothing fits, or m or W cannot be.
    """
    batch = info.batch_size
    usual = choose_schedule(batch, lambda n: plans.at(works[0], n), micro_batch, workers)
    found = forecast(plans, works, info, usual)
    if budget is None or found.total <= budget:
        return found
    schedules = (usual,) if usual.why else _schedules(batch, micro_batch, workers)
    ways = [forecast(plans, works, info, s) for s in schedules]
    fitting = [way for way in ways if way.total <= budget]
    if not fitting:
        least = min(way.total for way in ways)
        raise OptionError(
            f"--memory-budget: must be at least {_megabytes(least)} to train this in batches of "
            f"{batch}, but got {_megabytes(budget)}"
        )
    return min(fitting, key=_seconds)


def _seconds(way: Forecast) -> float:
    s = way.schedule
    return step_seconds(way.plan, s.batch, s.micro_batch, s.workers)


def _schedules(batch: int, micro_batch: int | None, workers: int | None) -> Iterator[Schedule]:
    """Ways to cut a batch: into 1, 2, 4, … parts or single samples, for any number of workers."""
    cores = available_cores()
    runs, sizes = 1, [batch]
    while sizes[-1] > 1:
        runs *= 2
        sizes.append(-(-batch // runs))
    for m in [micro_batch] if micro_batch else sizes:
        for w in [workers] if workers else range(1, cores + 1):
            if w <= -(-batch // m):
                yield Schedule(batch, m, w, 1 if w > 1 else cores)


def _megabytes(nbytes: int) -> str:
    """As the option takes it, rounded up."""
    return f"{-(-nbytes // 100_000) / 10:.1f}MB"
