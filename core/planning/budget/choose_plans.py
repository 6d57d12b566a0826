"""Plans and schedule of a training run, with or without a memory budget."""

from collections.abc import Mapping

from odt.core.model.training_info import TrainingInfo
from odt.core.planning.budget.fit_budget import fit_budget
from odt.core.planning.computation import Computation, Plans, usual_schedule
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
    """Returns plans and schedule as `fit_budget` does, and within a budget the peak of the process.

    Without a budget there is no forecast, which takes a plan of each computation.
    """
    options = micro_batch, workers
    if budget is None:
        schedule = usual_schedule(plans, computations[0], info.batch_size, *options)
        plans.keep(schedule.sizes)
        return plans, schedule, None
    forecast = fit_budget(
        plans, computations, info, budget, *options, reserves=reserves, process=process
    )
    return forecast.plans, forecast.schedule, process + forecast.peak
