"""A batch on threads of Python, one for each worker."""

from collections.abc import Sequence
from functools import partial

from odt.core.planning.step_plans import StepPlans
from odt.core.runtime.batch import Batch
from odt.core.runtime.programs import Programs
from odt.core.runtime.team import Team
from odt.core.runtime.worker import Worker


class Threads:
    """Runs the micro-batches of each worker on a thread of its own: the way for any program."""

    def __init__(self, plans: StepPlans, team: Team, workers: Sequence[Worker]) -> None:
        """Keeps the threads and their workers."""
        self._plans, self._team, self._workers = plans, team, workers

    def run(self, programs: Programs, batch: Batch) -> None:
        """Runs the micro-batches of each worker."""
        # The last batch of an epoch may have fewer parts than there are workers.
        parts = zip(self._workers, programs.runs(batch.samples), strict=False)
        self._team.run([partial(worker.run, runs, batch) for worker, runs in parts])
        self._plans.check_after_step()
