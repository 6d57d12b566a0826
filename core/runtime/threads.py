"""A batch on threads of Python, one for each worker."""

from collections.abc import Sequence
from functools import partial

from odt.core.planning.step_mode import Update
from odt.core.planning.step_plans import StepPlans
from odt.core.runtime.batch import Batch
from odt.core.runtime.program import Program
from odt.core.runtime.programs import Programs
from odt.core.runtime.team import Team
from odt.core.runtime.worker import Worker


class Threads:
    """Runs the micro-batches of each worker on a thread of its own: the way for any program."""

    def __init__(self, plans: StepPlans, team: Team, workers: Sequence[Worker]) -> None:
        """Keeps the threads and their workers."""
        self._plans, self._team, self._workers = plans, team, workers
        self._updates = plans.mode.update is Update.DURING

    def run(self, programs: Programs, batch: Batch) -> None:
        """Runs the micro-batches of each worker."""
        runs = programs.runs(batch.samples)
        if len(runs) == len(runs[0]) == 1 and self._is_one_call(runs[0][0].program, batch):
            self._team.run([partial(self._workers[0].run_at_once, runs[0][0], batch)])
            return
        # The last batch of an epoch may have fewer parts than there are workers.
        parts = zip(self._workers, runs, strict=False)
        self._team.run([partial(worker.run, each, batch) for worker, each in parts])
        self._plans.check_after_step()

    def _is_one_call(self, program: Program, batch: Batch) -> bool:
        """Whether a program runs by one call: nothing happens between forward and backward."""
        looks = batch.look is not None or bool(program.seen)
        return not (looks or self._updates) and program.loops is not None
