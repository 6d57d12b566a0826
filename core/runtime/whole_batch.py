"""All micro-batches of a batch as one call, so that workers wait for each other only once."""

from collections.abc import Mapping, Sequence

import numpy as np

from odt.core.planning.plan import Plan
from odt.core.runtime.arena import make_arrays
from odt.core.runtime.batch import Batch, Run
from odt.core.runtime.gradients import ALWAYS
from odt.core.runtime.program import Samples
from odt.kernels.native.binding import Calls, one_loop, side_by_side
from odt.kernels.native.updates import bind_copy
from odt.kernels.rows.opdef import Array, TensorSpec


def hold(plan: Plan, specs: Mapping[str, TensorSpec]) -> Samples | None:
    """Allocates the arrays of a whole batch; None if there are none.

    Args:
        plan: plan of a micro-batch.
        specs: arrays by value of the plan, as `held_samples` returns them.
    """
    if not specs:
        return None
    arrays = make_arrays(specs)
    names = (plan.inputs, plan.targets, plan.scales)
    return Samples(*([arrays[n] for n in each] for each in names))


class WholeBatch:
    """The micro-batches of all workers for a number of samples, as one call.

    Attributes:
        runs: of each worker.
    """

    def __init__(
        self, samples: Samples, runs: Sequence[Sequence[Run]], adds: Sequence[Array]
    ) -> None:
        """Binds the call.

        Args:
            samples: what it reads.
            runs: of each worker.
            adds: of each worker, (1,): what later runs set, so that their gradients are added.
        """
        *_, last = runs[-1]
        self._count = last.at + last.count
        self.runs, self._samples = runs, samples.part(0, self._count)
        count = len(runs[0][0].program.losses)
        self._losses = [np.zeros((len(each), count), np.float32) for each in runs]
        each = zip(runs, self._losses, adds, strict=False)
        self._call = side_by_side([_loops(samples, *given) for given in each])

    def run(self, batch: Batch) -> None:
        """Fills in the samples of a batch, and runs the call."""
        for array, scale in zip(self._samples.scales, batch.scales, strict=True):
            array.fill(scale)
        batch.fill(self._samples, 0, self._count)
        self._call()

    def losses(self, worker: int) -> list[float]:
        """The loss of each run of a worker."""
        return [sum(each) for each in self._losses[worker].tolist()]


def _loops(samples: Samples, runs: Sequence[Run], losses: Array, adds: Array) -> list[Calls]:
    """Returns the loops of a worker."""
    loops: list[Calls] = []
    for run, row in zip(runs, losses, strict=True):
        step = run.program.loops
        assert step is not None, "all calls are compiled"
        each = zip(run.program.samples, samples.part(run.at, run.count), strict=True)
        fill = [bind_copy(a, b) for to, of in each for a, b in zip(to, of, strict=True)]
        found = [bind_copy(row[k : k + 1], a) for k, a in enumerate(run.program.losses)]
        after = [*found, bind_copy(adds, ALWAYS)]
        loops += [one_loop(fill), step[-1], one_loop(after)]
    return loops
