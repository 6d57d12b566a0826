"""How a batch is cut into micro-batches for the workers."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from odt.core.planning.cost import samples_of_calls, samples_worth_a_run, seconds_a_call
from odt.core.planning.memory import MemoryPlan
from odt.core.planning.plan import Plan
from odt.errors import OptionError, UnsupportedError
from odt.kernels.native.library import is_available

CACHE = 4 * 2**20  # bytes an arena should stay below: about what a core has as its own
# NumPy makes many calls, each of which waits for the interpreter's lock: fewer and longer ones
# gain more than the cache.
NUMPY_CACHE = 12 * 2**20
ADDING = 0.12  # of a run's time may go into adding up its gradients
SMALL = 2**20  # bytes of values below which a second thread costs more than it gains
# Seconds a call, as core/planning/cost.py estimates, below which workers wait for the interpreter's
# lock longer than they compute; a single worker's calls are shared among the cores.
SHORT, NUMPY_SHORT = 40e-6, 100e-6
LONGER = 4 * CACHE  # bytes an arena may have so that calls are no shorter than that


@dataclass(frozen=True, slots=True)
class Schedule:
    """A batch cut up.

    Attributes:
        batch: B, samples in a step.
        micro_batch: m, samples in one run of a program; the last run of a batch may have fewer.
        workers: W.
        blas_threads: that each matrix product may use.
        why: why the batch is not cut, or only into single samples, where the model decides that.
    """

    batch: int
    micro_batch: int
    workers: int
    blas_threads: int
    why: str = ""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Samples in the runs of a whole batch: m, and the rest where m does not divide it."""
        rest = self.batch % self.micro_batch
        return (self.micro_batch, rest) if rest else (self.micro_batch,)

    def parts(self, samples: int) -> list[list[tuple[int, int]]]:
        """For each worker its micro-batches as (first sample, samples), for a batch of `samples`.

        The order in which gradients add up follows from this list alone.
        """
        m = self.micro_batch
        cuts = [(at, min(m, samples - at)) for at in range(0, samples, m)]
        each, more = divmod(len(cuts), self.workers)
        parts, at = [], 0
        for k in range(self.workers):
            size = each + (k < more)
            parts.append(cuts[at : at + size])
            at += size
        return [p for p in parts if p]


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def frozen_samples(plan_at: Callable[[int], tuple[Plan, MemoryPlan]], micro_batch: int) -> int:
    """Samples that a part without a backward pass runs at once, of a micro-batch.

    As many as an arena stays in a core's cache with: the part behind it, which trains, may be so
    much smaller that its micro-batches are far too large for this one.

    Args:
        plan_at: the part's plan and its memory at a number of samples.
        micro_batch: m, of what trains.
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
    """Picks m and W where they are not given.

    Small enough that an arena stays in a core's cache, large enough that calls stay long; more
    than one worker only where there is work for it.

    Args:
        batch: B.
        plan_at: the plan and its memory at a micro-batch size.
        micro_batch: m, if it is given.
        workers: W, if it is given.

    Raises:
        OptionError: if m or W cannot be.
    """
    cores = available_cores()
    for name, n in (
        ("--batch-size", batch),
        ("--micro-batch", micro_batch),
        ("--workers", workers),
    ):
        if n is not None and n < 1:
            raise OptionError(f"{name}: must be 1 or more, but got {n}")
    if micro_batch is not None and micro_batch > batch:
        raise OptionError(
            f"--micro-batch: must be at most the batch size, {batch}, but got {micro_batch}"
        )
    try:
        one, memory = plan_at(1)
    except UnsupportedError as e:
        plan_at(batch)  # says what is wrong, if this batch cannot be computed either
        if micro_batch not in (None, batch) or workers not in (None, 1):
            raise OptionError(
                f"--micro-batch, --workers: must be {batch} and 1, because the batch cannot be "
                f"cut, but got {micro_batch or batch} and {workers or 1}; {e}"
            ) from None
        return Schedule(batch, batch, 1, cores, "the model's shapes hold for whole batches only")
    try:
        two, for_two = plan_at(min(2, batch))
    except UnsupportedError as e:
        if micro_batch not in (None, 1):
            raise OptionError(f"--micro-batch: must be 1, but got {micro_batch}; {e}") from None
        most = min(workers or 1, batch)
        return Schedule(batch, 1, most, 1, "the model's shapes hold for one sample only")
    a_sample = max(for_two.nbytes - memory.nbytes, 1) if batch > 1 else memory.nbytes
    if two.mixing:
        if micro_batch not in (None, batch) or workers not in (None, 1):
            raise OptionError(
                f"--micro-batch, --workers: must be {batch} and 1, because the samples of a batch "
                f"depend on each other in {', '.join(two.mixing)}, "
                f"but got {micro_batch or batch} and {workers or 1}"
            )
        return Schedule(batch, batch, 1, cores, f"{', '.join(two.mixing)} mixes samples")
    fixed = max(memory.nbytes - a_sample, 0)
    small, heavy = a_sample * batch < SMALL, a_sample * batch < fixed
    cache, short = (CACHE, SHORT) if is_available() else (NUMPY_CACHE, NUMPY_SHORT)
    # What does not grow with the samples, such as gradients, is worth as many of them; and so is
    # adding them up.
    enough = samples_worth_a_run(one, two, ADDING) if batch > 1 else 1
    longer = min(samples_of_calls(one, two, short), (LONGER - fixed) // a_sample)
    most = max((cache - fixed) // a_sample, -(-fixed // a_sample), enough, longer)

    def cut(among: int) -> int:
        runs = -(-batch // min(most, batch))
        return -(-batch // (-(-runs // among) * among))

    wanted = workers or (1 if small or heavy else min(cores, batch))
    size = micro_batch or cut(wanted)
    if workers is None and wanted > 1 and seconds_a_call(one, two, size) < short:
        wanted = 1
        size = micro_batch or cut(wanted)
    wanted = min(wanted, -(-batch // size))
    return Schedule(batch, size, wanted, 1 if wanted > 1 or small else cores)
