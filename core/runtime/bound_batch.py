"""Batches of one compiled micro-batch, for whose steps everything is looked up once."""

import math

from odt.core.planning.computation import Plans
from odt.core.runtime.batch import Batch, Run
from odt.core.runtime.team import Team
from odt.core.runtime.worker import Worker
from odt.kernels.native.binding import in_order


class BoundBatch:
    """Computes losses and gradients of batches that differ in their samples alone.

    The general way looks up programs, workers and tasks in each step, which takes as long as the
    kernels of a small network: 15 µs.
    """

    def __init__(self, run: Run, batch: Batch, worker: Worker, team: Team, plans: Plans) -> None:
        """Binds the step.

        Args:
            run: the micro-batch, whose program is compiled and only adds gradients.
            batch: the batch, without anything that looks at outputs.
            worker: the only worker.
            team: its thread.
            plans: plans of the model, which know its files.
        """
        program = run.program
        assert program.loops is not None, "all calls are compiled"
        self._run, self._batch, self._worker, self._plans = run, batch, worker, plans
        self._losses = program.losses
        self._forward, backward, _ = program.loops
        # Statistics are read before backward, which reuses their memory.
        self._rest = in_order([worker.bind_statistics(program), backward])
        self._scales = list(zip(program.samples.scales, batch.scales, strict=True))
        self._team = team
        self._tasks = [self._step]
        self._loss = math.nan

    def run(self) -> float:
        """Computes the gradients of a batch, and returns its loss.

        Raises:
            NotFiniteError: if the loss is not finite.
        """
        self._team.run(self._tasks)
        return self._loss

    def _step(self) -> None:
        for array, scale in self._scales:
            array.fill(scale)
        self._batch.fill(self._run.program.samples, 0, self._batch.samples)
        self._forward()
        self._plans.check_files()
        self._run.program.check()
        self._loss = sum([a.item() for a in self._losses])
        if not math.isfinite(self._loss):
            self._worker.take(self._run, self._batch, self._loss)  # raises the error
        self._rest()
