"""Plans and schedule of a training run, with or without a memory budget."""

from collections.abc import Mapping

from odt.core.model.training_info import TrainingInfo
from odt.core.planning.computation import Computation, Plans, usual_schedule
from odt.core.planning.gradient_sums import tables_of
from odt.core.planning.schedule import Schedule


def choose_plans(
    plans: Plans,
    computations: tuple[Computation, ...],
    info: TrainingInfo,
    budget: int | None,
    micro_batch: int | None,
    workers: int | None,
    reserves: Mapping[str, int],
    process: int,
) -> tuple[Plans, Schedule, int | None]:
    """Returns plans, schedule, and the peak of the process in bytes; None without a budget.

    Without a budget there is no forecast, which takes a plan of each computation. Arguments and
    errors are those of `fit_budget`.
    """
    if budget is None:
        schedule = usual_schedule(
            plans, computations[0], info.batch_size, micro_batch, workers, tables_of(info)
        )
        plans.keep(schedule.sizes)
        return plans, schedule, None
    from odt.core.planning.budget.fit_budget import fit_budget

    forecast = fit_budget(
        plans,
        computations,
        info,
        budget,
        micro_batch,
        workers,
        reserves=reserves,
        process=process,
    )
    return forecast.plans, forecast.schedule, process + forecast.peak
