"""A batch of short micro-batches, on threads of the library."""

from collections.abc import Sequence
from functools import partial

from odt.core.planning.step_plans import StepPlans
from odt.core.runtime.batch import Batch, Run
from odt.core.runtime.gradients import Gradients
from odt.core.runtime.programs import Programs
from odt.core.runtime.team import Team
from odt.core.runtime.threads import Threads
from odt.core.runtime.worker import Worker
from odt.kernels.native.binding import side_by_side


class SideBySide:
    """Runs rounds of one micro-batch of each worker, all started by one thread of Python.

    Threads of the library compute the micro-batches of a round at the same time, so that none waits
    for the interpreter lock, or to be woken up.
    """

    def __init__(
        self, plans: StepPlans, team: Team, workers: Sequence[Worker], sums: Gradients
    ) -> None:
        """Makes the runner, and threads for batches with calls that are not compiled."""
        self._plans, self._team, self._workers, self._sums = plans, team, workers, sums
        self._threads = Threads(plans, team, workers)

    def run(self, programs: Programs, batch: Batch) -> None:
        """Runs the micro-batches of each worker, on threads of Python if a call is not compiled."""
        runs = programs.runs(batch.samples)
        if is_compiled(runs):
            self._team.run([partial(self._run, runs, batch)])
            self._plans.check_after_step()
        else:
            self._threads.run(programs, batch)

    def _run(self, runs: Sequence[Sequence[Run]], batch: Batch) -> None:
        """Runs compiled micro-batches: one of each worker at the same time."""
        for worker in self._workers:
            worker.begin()
        for number in range(len(runs[0])):
            # A last batch may have fewer parts than workers, and later workers fewer runs.
            parts = zip(self._workers, runs, strict=False)
            together = [(worker, part[number]) for worker, part in parts if number < len(part)]
            loops = [run.program.loops for _, run in together if run.program.loops]
            for worker, run in together:
                worker.fill(run, batch)
            separate = batch.look is not None or bool(together[0][1].program.seen)
            side_by_side([[forward if separate else step] for forward, _, step in loops])()
            for worker, run in together:
                run.program.check()
                worker.end_forward(run, batch)
            if separate:
                side_by_side([[backward] for _, backward, _ in loops])()
            for worker, _ in together:
                self._sums.end_run(worker.number)


def is_compiled(runs: Sequence[Sequence[Run]]) -> bool:
    """Whether all calls of all runs are compiled."""
    return all(run.program.loops for each in runs for run in each)
