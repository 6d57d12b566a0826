"""Splits a batch into micro-batches for the workers."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from math import isqrt

from odt.core.lowering.lower import LoweredGraphs
from odt.core.planning.cost import RunCost, forward_seconds, seconds_of_adding
from odt.core.planning.memory import MemoryPlan, nbytes_of_one
from odt.core.planning.plan import Plan
from odt.dataclass import dataclass
from odt.errors import OptionError, UnsupportedError
from odt.kernels.native.target import other_target

CACHE = 2 * 2**20  # bytes that an arena may have in any case: about the private cache of a core
# Most samples of the plan from which the cost of a sample is estimated. Often it is the plan of the
# micro-batch that is chosen, too, and no second plan is made.
SEVERAL = 16
# Fraction of its samples' time that a run may take beside them, which sets a number of samples.
# Half that number cost up to 14 % of a step's time, larger ones saved at most 5 % (15 networks).
FIXED = 0.135
ARENAS = 64 * 2**20  # bytes that all arenas may have for runs of that number
# Larger arenas, if those of single samples are large: arenas of single samples times this.
GROWTH = 1.25
# Fraction of a batch's time on one core by which workers with micro-batches of their own are faster
# than cores that share each call: 0.08 to 0.2 on eight networks, less if all is matrix products.
SHARING = 0.12
WAKING = 100e-6  # seconds: start and end of a step on several workers
STEP = 3  # time of a step / time of its forward phase, about
# Fraction of a run's time in the overhead of NumPy calls above which workers wait for the
# interpreter lock longer than they compute; the calls of a single worker are split over the cores.
SHORT = 0.25


@dataclass(frozen=True, slots=True)
class Schedule:
    """The split of a batch into micro-batches on workers.

    Attributes:
        batch: B, samples in a step.
        micro_batch: m, samples in one run of a program; the last run of a batch may have fewer.
        workers: W, number of workers.
        blas_threads: number of threads that a matrix product may use.
        why: reason why the model's batch cannot be split, or only into single samples.
        packs: whether weights may be packed once in a step, in memory of their own.
    """

    batch: int
    micro_batch: int
    workers: int
    blas_threads: int
    why: str = ""
    packs: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """Samples in the runs of a whole batch: m, and the rest if m does not divide the batch."""
        rest = self.batch % self.micro_batch
        return (self.micro_batch, rest) if rest else (self.micro_batch,)

    def parts(self, samples: int) -> list[list[tuple[int, int]]]:
        """Returns the micro-batches of each worker, (first sample, samples), for a batch size.

        The order in which gradients are added follows from this list.
        """
        m = self.micro_batch
        runs = [(at, min(m, samples - at)) for at in range(0, samples, m)]
        each, remainder = divmod(len(runs), self.workers)
        parts = []
        at = 0
        for k in range(self.workers):
            size = each + (k < remainder)
            parts.append(runs[at : at + size])
            at += size
        return [p for p in parts if p]


_other_cores: ContextVar[int | None] = ContextVar("other_cores", default=None)


@contextmanager
def on_cores(count: int) -> Iterator[None]:
    """Plans for a number of cores in a `with` block."""
    token = _other_cores.set(count)
    try:
        yield
    finally:
        _other_cores.reset(token)


def available_cores() -> int:
    """Returns the number of cores that a step may use: on this machine, those of the process."""
    cores = _other_cores.get()
    if cores is not None:
        return cores
    target = other_target()
    if target is not None:
        return target.cores
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def frozen_samples(plan_at: Callable[[int], tuple[Plan, MemoryPlan]], micro_batch: int) -> int:
    """Returns the number of samples of a micro-batch that the frozen part computes at once.

    The trained part may be so much smaller that its micro-batches are far too large for the frozen
    part.

    Args:
        plan_at: returns the frozen part's plan and memory plan for a number of samples.
        micro_batch: m of the trained part.
    """
    try:
        plan_at(1)
        several = plan_at(2)
    except UnsupportedError:
        return micro_batch
    return _Samples.from_plan(*several).micro_batch(micro_batch, 1)


def run_sizes(samples: int, most: int) -> list[int]:
    """Returns ⌈samples / runs⌉ for all numbers of runs, up to `most`.

    There are at most 2 √samples of them, and this function takes as many steps.
    """
    root = isqrt(samples)
    small = {n for n in range(1, min(root, most) + 1) if -(-samples // -(-samples // n)) == n}
    return sorted(small | {-(-samples // runs) for runs in range(-(-samples // most), root + 2)})


@dataclass(frozen=True, slots=True)
class _Samples:
    """Time (`cost`) and memory of a run, by its samples: `fixed` + samples × `each` bytes."""

    cost: RunCost
    fixed: int
    each: int

    @classmethod
    def from_plan(cls, plan: Plan, memory: MemoryPlan) -> "_Samples":
        """Estimates them from the plan for several samples, or for one if a batch has no more."""
        each, of_one, samples = memory.nbytes, memory.nbytes, plan.graph.samples
        if samples > 1:
            of_one = nbytes_of_one(plan, memory)
            each = (memory.nbytes - of_one) // (samples - 1)
        each = max(each, 1)
        return cls(RunCost.from_plan(plan), max(of_one - each, 0), each)

    def micro_batch(self, samples: int, workers: int) -> int:
        """Returns the size of runs: equal ones, unless those are far larger or smaller.

        Args:
            samples: samples of each worker.
            workers: number of workers.
        """
        arenas = max(ARENAS, int(GROWTH * workers * (self.fixed + self.each)))
        most = self.within(arenas // workers)
        sizes = run_sizes(samples, most)
        best = self._best(sizes)
        equal = self._best([n for n in sizes if samples % n == 0])
        return equal if best <= 2 * equal <= 4 * best else best

    def _best(self, sizes: Sequence[int]) -> int:
        """Returns the largest size within the cache, or a larger one that the fixed time asks for.

        If memory that does not grow with the samples, such as gradients, is large, samples may use
        as much. If threads divide weights, these are read once for all samples.
        """
        if self.cost.divides:
            return sizes[-1]
        cached = max(self.within(CACHE), -(-self.fixed // self.each))
        needed = self.cost.samples(FIXED)
        enough = [n for n in sizes if n >= needed] or [sizes[-1]]
        return max([n for n in sizes if n <= cached][-1], enough[0])

    def within(self, nbytes: int) -> int:
        """Returns the number of samples that fit into an arena."""
        return max((nbytes - self.fixed) // self.each, 1)

    def workers(self, batch: int, most: int) -> int:
        """Returns the number of workers, if each has a core."""
        gain = SHARING * self.cost.sample * batch
        return 1 if self.cost.divides or WAKING + self.cost.adding > gain else most


def several_samples(
    graphs: LoweredGraphs, batch: int, micro_batch: int | None, workers: int | None
) -> int:
    """Returns the number of samples of the plan from which a schedule is chosen.

    It is the most likely micro-batch, or a part of it. Arguments are those of `choose_schedule`.
    """
    if micro_batch is None:
        count = workers or _likely_workers(graphs, batch)
        micro_batch = -(-batch // count)
    return min(max(min(micro_batch, SEVERAL), 2), batch)


def _likely_workers(graphs: LoweredGraphs, batch: int) -> int:
    """Returns the number of workers that a step with all weights is likely to have."""
    graph = graphs.at_file_batch
    gain = SHARING * STEP * forward_seconds(graph) / graphs.file_batch * batch
    weights = (t.spec.nbytes for t in graph.tensors if t.data is not None and t.spec.has_gradient)
    return 1 if WAKING + seconds_of_adding(sum(weights)) > gain else min(available_cores(), batch)


def choose_schedule(
    graphs: LoweredGraphs,
    batch: int,
    plan_at: Callable[[int], tuple[Plan, MemoryPlan]],
    micro_batch: int | None = None,
    workers: int | None = None,
    several: int | None = None,
) -> Schedule:
    """Chooses m and W.

    m is large enough to make a run's calls, weights and gradients a small part of its time, and no
    larger than that needs, for the sake of cache and memory. Each worker has equally many runs of m
    samples where the batch permits. W is more than 1 only if a batch has enough to compute.

    Args:
        graphs: the lowered graphs of the plans.
        batch: B.
        plan_at: returns the plan and memory plan for a micro-batch size.
        micro_batch: m; None to choose.
        workers: W; None to choose.
        several: result of `several_samples`, if it is known.

    Raises:
        OptionError: if the given m or W is not possible.
    """
    cores = available_cores()
    for name, n in {"batch_size": batch, "micro_batch": micro_batch, "workers": workers}.items():
        if n is not None and n < 1:
            raise OptionError(name, "must be 1 or more", n)
    if micro_batch is not None and micro_batch > batch:
        raise OptionError("micro_batch", f"must be at most the batch size, {batch}", micro_batch)
    try:
        graphs.check_single()
    except UnsupportedError as e:
        plan_at(batch)  # raises if this batch cannot be computed either
        _check_whole_batch(batch, micro_batch, workers, "the batch cannot be split", str(e))
        return Schedule(batch, batch, 1, cores, "the model's shapes are only for whole batches")
    try:
        plan, memory = plan_at(several or several_samples(graphs, batch, micro_batch, workers))
    except UnsupportedError as e:
        if micro_batch not in (None, 1):
            raise OptionError("micro_batch", "must be 1", micro_batch, str(e)) from None
        return Schedule(
            batch, 1, min(workers or 1, batch), 1, "the model's shapes are only for one sample"
        )
    if plan.mixing:
        mixing = ", ".join(plan.mixing)
        why = f"the samples of a batch depend on each other in {mixing}"
        _check_whole_batch(batch, micro_batch, workers, why)
        return Schedule(batch, batch, 1, cores, f"{mixing} mixes samples")
    samples = _Samples.from_plan(plan, memory)

    def split_batch(among: int) -> int:
        return samples.micro_batch(-(-batch // among), among)

    is_small = SHARING * samples.cost.sample * batch < WAKING
    count = workers or samples.workers(batch, min(cores, batch))
    size = micro_batch or split_batch(count)
    are_short = samples.cost.calls > SHORT * (samples.cost.calls + size * samples.cost.sample)
    if workers is None and count > 1 and are_short:
        count = 1
        size = micro_batch or split_batch(count)
    count = min(count, -(-batch // size))
    return Schedule(batch, size, count, 1 if count > 1 or is_small else cores)


def _check_whole_batch(
    batch: int, micro_batch: int | None, workers: int | None, why: str, remedy: str = ""
) -> None:
    """Raises OptionError unless the options permit one run of the whole batch."""
    if micro_batch not in (None, batch) or workers not in (None, 1):
        raise OptionError(
            "micro_batch, workers",
            f"must be {batch} and 1, because {why}",
            f"{micro_batch or batch} and {workers or 1}",
            remedy,
        ) from None  # the remedy is the text of an error that a caller handles
