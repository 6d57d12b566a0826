"""Finds the fastest plans and schedule within a memory budget."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from odt.core.model.training_info import TrainingInfo
from odt.core.planning.budget.forecast import Forecast, entry_nbytes, forecast
from odt.core.planning.computation import Computation, Plans, usual_schedule
from odt.core.planning.cost import step_seconds
from odt.core.planning.gradient_sums import tables_of
from odt.core.planning.memory import plan_memory
from odt.core.planning.plan import Plan
from odt.core.planning.rewrites.choose_dropped import choose_dropped
from odt.core.planning.rewrites.compress import choose_digests
from odt.core.planning.rewrites.reorder import choose_order
from odt.core.planning.rewrites.rewritten_plans import RewrittenPlans
from odt.core.planning.schedule import Schedule, available_cores
from odt.errors import OptionError

# Fractions of the available bytes to aim at, because an arena is slightly larger than the values
# alive at once. The last one drops every activation that saves memory.
MARGINS = (1.0, 0.97, 0.93, 0.88, 0.0)
# Other memory within a budget, and the options that reduce it.
LEAVE_OUT = {
    "a cache": '`cache_frozen="disk"`, `cache_dtype="float16"`',
    "a copy of the best weights": "no `keep_best=True`",
    "prepared batches": "no `augment=`",
    "a teacher's outputs": "`teacher_outputs=`",
    "outputs kept for metrics": "no `metrics=auc`",
    "the export": "`last=` of fewer layers",
}


class BudgetError(OptionError):
    """A memory budget that is too small.

    Attributes:
        least: bytes that the process needs at least.
    """

    def __init__(self, rule: str, got: str, remedy: str, least: int) -> None:
        super().__init__("memory_budget", rule, got, remedy)
        self.least = least

    def __reduce__(self) -> tuple[type["BudgetError"], tuple[object, ...]]:
        return type(self), (self.rule, self.got, self.remedy, self.least)


def fit_budget(
    plans: Plans,
    computations: tuple[Computation, ...],
    info: TrainingInfo,
    budget: int | None,
    micro_batch: int | None = None,
    workers: int | None = None,
    *,
    reserves: Mapping[str, int] | None = None,
    process: int = 0,
) -> Forecast:
    """Chooses schedule and plans that keep a process that trains within a memory budget.

    Without a budget, or if it suffices, the schedule is that of `choose_schedule`. Otherwise
    weights are packed in each micro-batch instead of once in a step. If that does not suffice, the
    schedule is the fastest one that fits, by estimated time: with smaller micro-batches, fewer
    workers, reordered calls, digests or recomputed activations.

    Args:
        plans: plans of the model.
        computations: training first, then validation.
        info: resolved training info.
        budget: bytes of the process; None for no limit.
        micro_batch: samples in a micro-batch; None to choose.
        workers: number of workers; None to choose.
        reserves: bytes of the budget for other uses, by keys of LEAVE_OUT.
        process: bytes of the process before training.

    Raises:
        OptionError: if nothing fits, or `micro_batch` or `workers` is not possible.
    """
    batch = info.batch_size
    reserve = sum((reserves or {}).values())
    tables = tables_of(info)
    usual = usual_schedule(plans, computations[0], batch, micro_batch, workers, tables)
    unpacked = replace(usual, packs=False)
    unchanged = replace(forecast(plans, computations, info, usual), cache=reserve)
    if budget is None:
        return unchanged
    room = budget - process
    if unchanged.peak <= room:
        return unchanged
    least = unchanged.peak
    if unchanged.packed:
        without_packing = replace(forecast(plans, computations, info, unpacked), cache=reserve)
        if without_packing.peak <= room:
            return without_packing
        least = min(least, without_packing.peak)
    schedules = [unpacked] if usual.why else list(_schedules(usual, micro_batch, workers))
    available = room - reserve
    best: Forecast | None = None
    for schedule in schedules:
        # Separate plans for each schedule, so that plans of rejected schedules are freed.
        separate = plans.begin(schedule.sizes)
        for rewrite in _rewrites(separate, computations, info, schedule, available):
            least = min(least, rewrite.peak + reserve)
            if rewrite.peak <= available and (best is None or _seconds(rewrite) < _seconds(best)):
                best = rewrite
    if best is None:
        raise _too_small(budget, least - reserve, batch, reserves or {}, process)
    return replace(best, cache=reserve)


def _too_small(
    budget: int, least: int, batch: int, reserves: Mapping[str, int], process: int
) -> BudgetError:
    """Returns the error of a budget below the bytes that training needs at least.

    Args:
        budget: bytes of the budget.
        least: bytes that training needs at least.
        batch: samples of a batch.
        reserves: bytes for other uses, by keys of LEAVE_OUT.
        process: bytes of the process before training.
    """
    others = {use: nbytes for use, nbytes in reserves.items() if nbytes}
    needed = process + least + sum(others.values())
    rule = f"must be at least {megabytes(needed)} to train in batches of {batch}"
    hint = ""
    if others:
        rule += " with " + " and ".join(f"{use} of {megabytes(n)}" for use, n in others.items())
        if process + least <= budget:
            hint = f"Keep less: {', '.join(LEAVE_OUT[use] for use in others)}."
    if process:
        rule += f", of which Python and its modules take {megabytes(process)}"
    return BudgetError(rule, rounded_down(budget), hint, needed)


def _rewrites(
    plans: Plans,
    computations: tuple[Computation, ...],
    info: TrainingInfo,
    schedule: Schedule,
    budget: int,
) -> Iterator[Forecast]:
    """Yields forecasts for one schedule, each with one more rewrite, until it fits."""
    plain = forecast(plans, computations, info, schedule, searched=True)
    yield plain
    if plain.peak <= budget:
        return
    reordered = compressed = plain
    plan = _plan_of(plain)
    memory = plain.memory if plan is plain.running else plan_memory(plan)
    order = choose_order(plan, memory.nbytes)
    if order:
        with_order = RewrittenPlans(plans, order)
        reordered = compressed = forecast(with_order, computations, info, schedule, searched=True)
        yield reordered
        if reordered.peak <= budget:
            return
    digests = choose_digests(_plan_of(reordered))
    if digests:
        with_digests = RewrittenPlans(plans, order, digests)
        compressed = forecast(with_digests, computations, info, schedule, searched=True)
        yield compressed
        if compressed.peak <= budget:
            return
    available = max(budget - (compressed.peak - compressed.arena), 0) // schedule.workers
    targets = [int(available * margin) for margin in MARGINS]
    call_nbytes = entry_nbytes(schedule, searched=True) // schedule.workers
    before = frozenset[str]()
    for dropped in choose_dropped(_plan_of(compressed), targets, call_nbytes):
        if dropped == before:  # also too much for this target
            continue
        before = dropped
        with_recomputation = RewrittenPlans(plans, order, digests, dropped)
        rewritten = forecast(with_recomputation, computations, info, schedule, searched=True)
        yield rewritten
        if rewritten.peak <= budget:
            return


def _plan_of(rewrite: Forecast) -> Plan:
    """Returns the plan with gradients as large as their blocks, to search what saves memory."""
    if rewrite.running is rewrite.plan:
        return rewrite.plan
    return replace(rewrite.plan, values=rewrite.running.values)


def _seconds(rewrite: Forecast) -> float:
    """Returns the estimated time of a step."""
    schedule = rewrite.schedule
    return step_seconds(rewrite.plan, schedule.batch, schedule.micro_batch, schedule.workers)


def _schedules(usual: Schedule, micro_batch: int | None, workers: int | None) -> Iterator[Schedule]:
    """Yields schedules that may need less memory than the usual one.

    Micro-batches are halved down to single samples. The whole batch is included, because it needs
    no memory for gradient sums. Each size comes with every possible or the given number of workers.
    """
    batch = usual.batch
    cores = available_cores()
    sizes: Sequence[int] = (micro_batch,) if micro_batch else _halves(batch, usual.micro_batch)
    most = -(-batch // sizes[-1])
    counts = [min(workers, most)] if workers else range(1, cores + 1)
    for m in sizes:
        for w in counts:
            if w <= -(-batch // m):
                yield Schedule(batch, m, w, 1 if w > 1 else cores)


def _halves(batch: int, size: int) -> list[int]:
    """Returns the batch, a size of micro-batches, and its halves down to 1."""
    sizes = [size] if size == batch else [batch, size]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // 2))
    return sizes


def megabytes(nbytes: int) -> str:
    """Formats bytes for the option, rounded up."""
    return f"{-(-nbytes // 100_000) / 10:.1f}MB"


def rounded_down(nbytes: int) -> str:
    """Formats bytes rounded down: a budget that is too small must not look like the minimum."""
    return f"{nbytes // 100_000 / 10:.1f}MB" if nbytes >= 100_000 else f"{nbytes}B"
