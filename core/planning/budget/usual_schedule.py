"""The schedule without a memory budget."""

from dataclasses import replace

from odt.core.planning.computation import Computation, Plans
from odt.core.planning.schedule import Schedule, available_cores, choose_schedule


def usual_schedule(
    plans: Plans,
    training: Computation,
    batch: int,
    micro_batch: int | None,
    workers: int | None,
) -> Schedule:
    """Chooses the schedule without a budget; arguments as for `fit_budget`.

    Raises:
        OptionError: if `micro_batch` or `workers` is not possible.
    """
    usual = choose_schedule(batch, lambda n: plans.at(training, n), micro_batch, workers)
    if training.begin and usual.workers == 1:  # the frozen part is rarely small
        return replace(usual, blas_threads=available_cores())
    return usual
