"""A batch of short micro-batches as one call, so that workers wait for each other only once."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from odt.core.planning.step_plans import StepPlans
from odt.core.runtime.arena import make_arrays
from odt.core.runtime.batch import Batch, Run
from odt.core.runtime.gradients import ALWAYS, Gradients
from odt.core.runtime.program import Samples
from odt.core.runtime.programs import Programs
from odt.core.runtime.side_by_side import SideBySide, is_compiled
from odt.core.runtime.team import Team
from odt.core.runtime.worker import Worker
from odt.kernels.native.binding import Calls, one_loop, side_by_side
from odt.kernels.native.updates import bind_copy
from odt.kernels.rows.opdef import Array


class WholeBatch:
    """Runs all micro-batches of a training step by one call, for which it holds the samples.

    Batches whose outputs are looked at run side by side.
    """

    def __init__(
        self, plans: StepPlans, team: Team, workers: Sequence[Worker], sums: Gradients
    ) -> None:
        """Allocates the arrays of a whole batch."""
        self._plans, self._team, self._workers, self._sums = plans, team, workers, sums
        self._samples = _arrays_of_batch(plans)
        self._side_by_side = SideBySide(plans, team, workers, sums)
        self._calls: dict[tuple[Programs, int], _BatchCall | None] = {}

    def run(self, programs: Programs, batch: Batch) -> None:
        """Runs the micro-batches of each worker."""
        call = self._call_of(programs, batch.samples) if batch.look is None else None
        if call is None:
            self._side_by_side.run(programs, batch)
        else:
            self._team.run([partial(self._run, call, batch)])

    def _call_of(self, programs: Programs, samples: int) -> "_BatchCall | None":
        """Returns the call for a number of samples; None if it has parts that are not compiled."""
        key = programs, samples
        if key not in self._calls:
            arrays, runs = self._samples.part(0, samples), programs.runs(samples)
            compiled = is_compiled(runs)
            self._calls[key] = _BatchCall(arrays, runs, self._sums.adds) if compiled else None
        return self._calls[key]

    def _run(self, call: "_BatchCall", batch: Batch) -> None:
        call.run(batch)
        self._plans.plans.check_files()  # which backward reads, too
        for worker in self._workers:
            worker.begin()
        for worker, runs in zip(self._workers, call.runs, strict=False):  # perhaps fewer parts
            for run, loss in zip(runs, call.losses(worker.number), strict=True):
                run.program.check()
                worker.take(run, batch, loss)


class _BatchCall:
    """The call for a number of samples.

    Attributes:
        runs: of each worker.
    """

    def __init__(
        self, samples: Samples, runs: Sequence[Sequence[Run]], adds: Sequence[Array]
    ) -> None:
        """Binds the call.

        Args:
            samples: arrays of the samples, which it reads.
            runs: of each worker.
            adds: of each worker, (1,): set after each run, so that later gradients are added.
        """
        self.runs, self._samples = runs, samples
        count = len(runs[0][0].program.losses)
        self._losses = [np.zeros((len(each), count), np.float32) for each in runs]
        # A last batch may have fewer parts than there are workers, each of which has an `adds`.
        parts = zip(runs, self._losses, adds, strict=False)
        self._call = side_by_side([_loops(samples, *part) for part in parts])

    def run(self, batch: Batch) -> None:
        """Fills in the samples of a batch, and runs the call."""
        for array, scale in zip(self._samples.scales, batch.scales, strict=True):
            array.fill(scale)
        batch.fill(self._samples, 0, batch.samples)
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
        groups = zip(run.program.samples, samples.part(run.at, run.count), strict=True)
        fill = [
            bind_copy(array, rows)
            for arrays, group in groups
            for array, rows in zip(arrays, group, strict=True)
        ]
        results = [bind_copy(row[k : k + 1], a) for k, a in enumerate(run.program.losses)]
        after = [*results, bind_copy(adds, ALWAYS)]
        loops += [one_loop(fill), step[-1], one_loop(after)]
    return loops


def _arrays_of_batch(plans: StepPlans) -> Samples:
    """Allocates the arrays of a whole batch."""
    plan, _ = plans.plans.at(plans.computation, plans.schedule.micro_batch)
    arrays = make_arrays(plans.mode.batch_arrays)
    names = (plan.inputs, plan.targets, plan.scales)
    return Samples(*([arrays[n] for n in each] for each in names))
