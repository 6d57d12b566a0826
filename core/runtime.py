"""The threads and arenas that a model's kinds of work share; they never run at the same time."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from odt.core.engine import Engine, Plans, Work
from odt.core.lower import sample_spec
from odt.core.parameters import Parameters
from odt.core.program import make_arena
from odt.core.schedule import choose_schedule
from odt.core.workers import Team
from odt.kernels.opdef import TensorSpec


class Runtime:
    """Engines for some kinds of work on one model, on shared memory.

    Attributes:
        schedule: micro-batches and workers.
        engines: one for each kind of work, in order.
        input_specs, output_specs: of one sample.
        losses: name of each, and the spec of one sample of the output it is on.
        target_specs: of one sample, one for each loss.
        arena_nbytes: of all workers together.
    """

    def __init__(
        self,
        plans: Plans,
        works: Sequence[Work],
        parameters: Parameters,
        batch: int,
        micro_batch: int | None = None,
        workers: int | None = None,
        *,
        whole: Work | None = None,
    ) -> None:
        """Chooses a schedule, and binds each kind of work to it.

        Args:
            plans: of the model.
            works: kinds of work.
            parameters: that they share.
            batch: samples in a step.
            micro_batch, workers: if they are given.
            whole: what the schedule is chosen for, and whose inputs and outputs count, if that is
                not the first kind of work.
        """
        whole = whole or works[0]
        self.schedule = choose_schedule(batch, lambda n: plans.at(whole, n), micro_batch, workers)
        size = self.schedule.micro_batch
        nbytes = max(plans.at(work, size)[1].nbytes for work in works)
        arenas = [make_arena(nbytes) for _ in range(self.schedule.workers)]
        self.arena_nbytes = nbytes * len(arenas)
        plan = plans.at(whole, size)[0]
        label, tensors = plan.graph.label, plan.graph.tensors

        def samples(indices: Sequence[int]) -> tuple[TensorSpec, ...]:
            return tuple(sample_spec(plan.graph, label(i), tensors[i].spec, size) for i in indices)

        self.input_specs = samples(plan.graph.inputs)
        self.output_specs = samples(plan.graph.outputs)
        names = [loss.name for loss in whole.losses]
        found = samples([loss.tensor for loss in whole.losses])
        self.losses = tuple(zip(names, found, strict=True))
        self.target_specs = tuple(
            sample_spec(plan.graph, n, plan.values[n].spec, size) for n in plan.targets
        )
        self._team = Team(self.schedule.workers, self.schedule.blas_threads)
        self.engines = [
            Engine(work, parameters, self.schedule, self._team, arenas, plans) for work in works
        ]

    def close(self) -> None:
        """Ends the threads and gives BLAS its own back."""
        self._team.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
