"""The threads and arenas that a model's kinds of work share; they never run at the same time."""

from collections.abc import Sequence

from odt.core.planning.computation import Computation, Plans
from odt.core.planning.schedule import Schedule
from odt.core.recipe.samples import sample_specs
from odt.core.runtime.arena import make_arena
from odt.core.runtime.engine import Engine
from odt.core.runtime.parameters import Parameters
from odt.core.runtime.workers import Team
from odt.core.storage.closing import Closing


class Runtime(Closing):
    """Engines for some kinds of work on one model, on shared memory.

    Attributes:
        schedule: micro-batches and workers.
        engines: one for each kind of work, in order.
        input_specs, output_specs, losses, target_specs: of the first kind, as in Samples.
        arena_nbytes: of all workers together.
    """

    def __init__(
        self,
        plans: Plans,
        computations: Sequence[Computation],
        parameters: Parameters,
        schedule: Schedule,
    ) -> None:
        """Binds each kind of work to memory of its own.

        Args:
            plans: of the model.
            computations: kinds of work.
            parameters: that they share.
            schedule: how a batch is cut.
        """
        self.schedule = schedule
        size = schedule.micro_batch
        nbytes = plans.arena_nbytes(computations, schedule)
        self._arenas = [make_arena(nbytes) for _ in range(schedule.workers)]
        self.arena_nbytes = nbytes * schedule.workers
        self._plans, self._parameters = plans, parameters
        of = sample_specs(plans.at(computations[0], size)[0].graph, computations[0].losses, size)
        self.input_specs, self.output_specs = of.input_specs, of.output_specs
        self.losses, self.target_specs = of.losses, of.target_specs
        self._team = Team(schedule.workers, schedule.blas_threads)
        self.engines = [self.engine(computation) for computation in computations]

    def engine(self, computation: Computation, *, keep_gradients: bool = False) -> Engine:
        """A further engine on the same memory; arguments are those of an Engine."""
        return Engine(
            computation,
            self._parameters,
            self.schedule,
            self._team,
            self._arenas,
            self._plans,
            keep_gradients=keep_gradients,
        )

    def close(self) -> None:
        """Ends the threads and gives BLAS its own back."""
        self._team.close()
