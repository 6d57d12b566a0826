"""Threads and arenas shared by a model's computations, which never run at the same time."""

from collections.abc import Sequence
from dataclasses import replace

from odt.core.planning.computation import Computation, Plans
from odt.core.planning.gradient_sums import TableRule, table_rule
from odt.core.planning.schedule import Schedule
from odt.core.planning.step_plans import StepPlans
from odt.core.recipe.sample_specs import sample_specs
from odt.core.runtime.arena import make_arena
from odt.core.runtime.engine import Engine
from odt.core.runtime.parameters import Parameters
from odt.core.runtime.team import Team
from odt.core.storage.closing import Closing
from odt.core.storage.free_memory import give_back


class Runtime(Closing):
    """Engines for several computations of one model, on shared memory.

    Attributes:
        schedule: micro-batches and workers.
        input_specs, output_specs, losses, target_specs, position_specs, quantizations, usual,
            input_names, target_names: as in SampleSpecs, of the first computation.
    """

    def __init__(
        self,
        plans: Plans,
        computations: Sequence[Computation],
        parameters: Parameters,
        schedule: Schedule,
        *,
        keep_gradients: bool = False,
        batches: int = 1,
        planned: int | None = None,
    ) -> None:
        """Allocates arenas.

        Args:
            plans: plans of the model.
            computations: the computations.
            parameters: parameters that they share.
            schedule: micro-batches and workers.
            keep_gradients: whether to keep gradients until the end of a step.
            batches: batches of a step.
            planned: number of computations, from the first, for which the arenas are large enough;
                None for all. The others are planned at their first use, and get larger arenas if
                they need more, which is rare: training needs more than validation.
        """
        give_back()
        self.schedule = schedule
        size = schedule.micro_batch
        self._plans, self._parameters = plans, parameters
        self._computations, self._keep_gradients = computations, keep_gradients
        optimizer = parameters.optimizer
        self._tables = (
            table_rule(optimizer.rule, optimizer.attrs, batches) if optimizer is not None else None
        )
        self._step_plans: dict[int, StepPlans] = {}
        self._nbytes = self._largest(planned)
        self._arenas = [make_arena(self._nbytes) for _ in range(schedule.workers)]
        plan = plans.plan(computations[0], size)
        specs = sample_specs(plan.graph, computations[0].losses, size)
        self.input_specs, self.output_specs = specs.input_specs, specs.output_specs
        self.losses, self.target_specs = specs.losses, specs.target_specs
        self.position_specs = specs.position_specs
        self.quantizations, self.usual = specs.quantizations, specs.usual
        self.input_names, self.target_names = specs.input_names, specs.target_names
        self._team = Team(schedule.workers, schedule.blas_threads)
        self._engines: dict[int, Engine] = {}

    @property
    def arena_nbytes(self) -> int:
        """Bytes of the arenas of all workers. Plans computations that are not planned yet."""
        most = self._largest(None)
        # A computation that needs more than the arenas of training gets one of its own.
        larger = most if most > self._nbytes else 0
        return (self._nbytes + larger) * self.schedule.workers

    def _largest(self, planned: int | None) -> int:
        """Returns the bytes of a worker's arena for the first computations, or for all."""
        numbers = range(len(self._computations))[:planned]
        return max(self.plans_of(number).arena_nbytes for number in numbers)

    def plans_of(self, number: int) -> StepPlans:
        """Returns the plans of one of the computations, which are made at the first request."""
        if number not in self._step_plans:
            self._step_plans[number] = self._plans_for(
                self._computations[number], self.schedule, self._keep_gradients, self._tables
            )
        return self._step_plans[number]

    def _plans_for(
        self,
        computation: Computation,
        schedule: Schedule,
        keep: bool,
        tables: TableRule | None = None,
    ) -> StepPlans:
        parameters = self._parameters
        return StepPlans(
            self._plans,
            computation,
            schedule,
            keep=keep,
            in_parts=parameters.in_parts,
            tables=tables,
            whole=parameters.pulls,
        )

    def engine_of(self, number: int) -> Engine:
        """Returns the engine of one of the computations, which is bound at the first request."""
        if number not in self._engines:
            self._engines[number] = self._bind(self.plans_of(number))
        return self._engines[number]

    def _bind(self, plans: StepPlans) -> Engine:
        return Engine(plans, self._parameters, self._team, self._arenas)

    def engine(
        self,
        computation: Computation,
        *,
        micro_batch: int | None = None,
        keep_gradients: bool = False,
    ) -> Engine:
        """Makes an engine for another computation, on the same parameters and arenas.

        Args:
            computation: the computation.
            micro_batch: samples that a program runs at once; None for those of the schedule.
            keep_gradients: whether to keep whole gradients until `apply`.
        """
        schedule = replace(self.schedule, micro_batch=micro_batch or self.schedule.micro_batch)
        return self._bind(self._plans_for(computation, schedule, keep_gradients))

    def close(self) -> None:
        """Ends the threads and restores the number of BLAS threads."""
        self._team.close()
