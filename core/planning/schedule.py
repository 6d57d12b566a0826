"""Splits a batch into micro-batches for the workers."""

import os
from collections.abc import Callable

from odt.core.planning.cost import samples_of_calls, samples_worth_a_run, seconds_a_call
from odt.core.planning.memory import MemoryPlan
from odt.core.planning.plan import Plan
from odt.dataclass import dataclass
from odt.errors import OptionError, UnsupportedError
from odt.kernels.native.library import is_available

CACHE = 4 * 2**20  # bytes that an arena should not exceed: about the private cache of a core
# NumPy kernels make many calls, each of which waits for the interpreter lock: fewer and longer
# calls save more time than the cache.
NUMPY_CACHE = 12 * 2**20
ADDING = 0.12  # fraction of a run's time that may go into adding up its gradients
SMALL = 2**20  # bytes of values below which a second thread costs more than it gains
# Estimated seconds per call (core/planning/cost.py) below which workers wait for the interpreter
# lock longer than they compute; the calls of a single worker are split over the cores.
SHORT, NUMPY_SHORT = 40e-6, 100e-6
LONGER = 4 * CACHE  # bytes that an arena may have for the sake of longer calls


@dataclass(frozen=True, slots=True)
class Schedule:
    """The split of a batch into micro-batches on workers.

    Attributes:
        batch: B, samples in a step.
        micro_batch: m, samples in one run of a program; the last run of a batch may have fewer.
        workers: W, number of workers.
        blas_threads: number of threads that a matrix product may use.
        why: reason why the model's batch cannot be split, or only into single samples.
    """

    batch: int
    micro_batch: int
    workers: int
    blas_threads: int
    why: str = ""

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
        each, more = divmod(len(runs), self.workers)
        parts, at = [], 0
        for k in range(self.workers):
            size = each + (k < more)
            parts.append(runs[at : at + size])
            at += size
        return [p for p in parts if p]


def available_cores() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def frozen_samples(plan_at: Callable[[int], tuple[Plan, MemoryPlan]], micro_batch: int) -> int:
    """Returns the number of samples of a micro-batch that the frozen part computes at once.

    It keeps the frozen part's arena in a core's cache. The trained part may be so much smaller that
    its micro-batches are far too large for the frozen part.

    Args:
        plan_at: returns the frozen part's plan and memory plan for a number of samples.
        micro_batch: m of the trained part.
    """
    try:
        (_, one), (_, two) = plan_at(1), plan_at(2)
    except UnsupportedError:
        return micro_batch
    within = 1 + max(CACHE - one.nbytes, 0) // max(two.nbytes - one.nbytes, 1)
    return -(-micro_batch // -(-micro_batch // within))


def choose_schedule(
    batch: int,
    plan_at: Callable[[int], tuple[Plan, MemoryPlan]],
    micro_batch: int | None = None,
    workers: int | None = None,
) -> Schedule:
    """Chooses m and W.

    m is small enough to keep an arena in a core's cache and large enough to keep calls long; W is
    more than 1 only if a micro-batch has enough to compute.

    Args:
        batch: B.
        plan_at: returns the plan and memory plan for a micro-batch size.
        micro_batch: m; None to choose.
        workers: W; None to choose.

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
        one, memory = plan_at(1)
    except UnsupportedError as e:
        plan_at(batch)  # raises if this batch cannot be computed either
        if micro_batch not in (None, batch) or workers not in (None, 1):
            raise OptionError(
                "micro_batch, workers",
                f"must be {batch} and 1, because the batch cannot be split",
                f"{micro_batch or batch} and {workers or 1}",
                str(e),
            ) from None
        return Schedule(batch, batch, 1, cores, "the model's shapes are only for whole batches")
    try:
        two, for_two = plan_at(min(2, batch))
    except UnsupportedError as e:
        if micro_batch not in (None, 1):
            raise OptionError("micro_batch", "must be 1", micro_batch, str(e)) from None
        most = min(workers or 1, batch)
        return Schedule(batch, 1, most, 1, "the model's shapes are only for one sample")
    a_sample = max(for_two.nbytes - memory.nbytes, 1) if batch > 1 else memory.nbytes
    if two.mixing:
        if micro_batch not in (None, batch) or workers not in (None, 1):
            raise OptionError(
                "micro_batch, workers",
                f"must be {batch} and 1, because the samples of a batch depend on each other in "
                f"{', '.join(two.mixing)}",
                f"{micro_batch or batch} and {workers or 1}",
            )
        return Schedule(batch, batch, 1, cores, f"{', '.join(two.mixing)} mixes samples")
    fixed = max(memory.nbytes - a_sample, 0)
    small, heavy = a_sample * batch < SMALL, a_sample * batch < fixed
    cache, short = (CACHE, SHORT) if is_available() else (NUMPY_CACHE, NUMPY_SHORT)
    # If memory that does not grow with the samples, such as gradients, is large, samples may use as
    # much. The same holds if adding gradients takes long.
    enough = samples_worth_a_run(one, two, ADDING) if batch > 1 else 1
    longer = min(samples_of_calls(one, two, short), (LONGER - fixed) // a_sample)
    most = max((cache - fixed) // a_sample, -(-fixed // a_sample), enough, longer)

    def split_batch(among: int) -> int:
        runs = -(-batch // min(most, batch))
        return -(-batch // (-(-runs // among) * among))

    wanted = workers or (1 if small or heavy else min(cores, batch))
    size = micro_batch or split_batch(wanted)
    if workers is None and wanted > 1 and seconds_a_call(one, two, size) < short:
        wanted = 1
        size = micro_batch or split_batch(wanted)
    wanted = min(wanted, -(-batch // size))
    return Schedule(batch, size, wanted, 1 if wanted > 1 or small else cores)
