"""The threads and arenas that a model's kinds of work share; they never run at the same time."""

from collections.abc import Sequence
from dataclasses import dataclass

from odt.core.lowering.sample_axis import sample_spec
from odt.core.model.graph import LoweredGraph
from odt.core.planning.autodiff import Loss
from odt.core.planning.computation import Computation, Plans
from odt.core.planning.schedule import Schedule
from odt.core.runtime.arena import make_arena
from odt.core.runtime.engine import Engine
from odt.core.runtime.parameters import Parameters
from odt.core.runtime.workers import Team
from odt.core.storage.closing import Closing
from odt.kernels.opdef import TensorSpec
from odt.kernels.registry import find_target


@dataclass(frozen=True, slots=True)
class SampleSpecs:
    """What one sample is to a model.

    Attributes:
        input_specs, output_specs: of one sample.
        losses: name of each, and the spec of one sample of the output it is on.
        target_specs: of one sample, one for each loss.
    """

    input_specs: tuple[TensorSpec, ...]
    output_specs: tuple[TensorSpec, ...]
    losses: tuple[tuple[str, TensorSpec], ...]
    target_specs: tuple[TensorSpec, ...]


def sample_specs(lowered: LoweredGraph, losses: Sequence[Loss], batch: int) -> SampleSpecs:
    """What one sample is to a graph that was lowered for a batch.

    Raises:
        UnsupportedError: if a tensor is not made of whole samples.
    """

    def one(i: int) -> TensorSpec:
        return sample_spec(lowered, lowered.label(i), lowered.tensors[i].spec, batch)

    targets = [find_target(x.name)(lowered.tensors[x.tensor].spec) for x in losses]
    return SampleSpecs(
        tuple(map(one, lowered.inputs)),
        tuple(map(one, lowered.outputs)),
        tuple((x.name, one(x.tensor)) for x in losses),
        tuple(sample_spec(lowered, f"target{k}", t, batch) for k, t in enumerate(targets)),
    )


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
        arenas = [make_arena(nbytes) for _ in range(schedule.workers)]
        self.arena_nbytes = nbytes * len(arenas)
        of = sample_specs(plans.at(computations[0], size)[0].graph, computations[0].losses, size)
        self.input_specs, self.output_specs = of.input_specs, of.output_specs
        self.losses, self.target_specs = of.losses, of.target_specs
        self._team = Team(schedule.workers, schedule.blas_threads)
        self.engines = [
            Engine(computation, parameters, schedule, self._team, arenas, plans)
            for computation in computations
        ]

    def close(self) -> None:
        """Ends the threads and gives BLAS its own back."""
        self._team.close()
