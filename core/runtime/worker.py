"""A worker: runs its micro-batches of a batch, and keeps their losses and ranges."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from odt.core.planning.computation import Plans
from odt.core.runtime.activation_ranges import merge_seen
from odt.core.runtime.batch import Batch, NotFiniteError, Run
from odt.core.runtime.gradients import Gradients
from odt.core.runtime.parameters import Parameters
from odt.core.runtime.program import Program
from odt.kernels.native.binding import in_order
from odt.kernels.native.updates import make_origin
from odt.kernels.rows.opdef import Array


class Worker:
    """Runs the micro-batches of its part of each batch.

    Attributes:
        number: position among the workers.
        losses: of the micro-batches of a batch.
        seen: ranges of activations in the micro-batches, as for `ActivationRanges.see`.
    """

    def __init__(self, number: int, plans: Plans, parameters: Parameters, sums: Gradients) -> None:
        """Makes a worker.

        Args:
            number: position among the workers.
            plans: plans of the model, which know its files.
            parameters: parameters, which have the seed of dropout.
            sums: sums of the gradients.
        """
        self.number = number
        self._plans, self._parameters, self._sums = plans, parameters, sums
        self.losses: list[float] = []
        self.seen: dict[int, Array] = {}
        self._moves: dict[Program, Callable[[], None]] = {}  # which move running statistics
        self._draws: dict[Program, Callable[[], None]] = {}  # which draw masks of dropout
        self._origin = make_origin()  # seed, step and first sample of the masks

    def run(self, runs: Sequence[Run], batch: Batch) -> None:
        """Runs micro-batches, beside those of other workers."""
        sums = self._sums
        self.begin()
        try:
            for run in runs:
                self.fill(run, batch)
                run.program.forward()
                self.end_forward(run, batch)
                if not sums.failed:
                    run.program.backward()
                    sums.end_run(self.number)
        except BaseException:
            sums.fail()
            raise

    def begin(self) -> None:
        """Begins a batch."""
        self.losses.clear()
        self.seen.clear()

    def fill(self, run: Run, batch: Batch) -> None:
        """Fills a program with the samples of its run."""
        program = run.program
        for array, scale in zip(program.samples.scales, batch.scales, strict=True):
            array.fill(scale)
        if program.masks:
            self._draw_masks(program, batch.update, batch.before + run.at)
        batch.fill(program.samples, run.at, run.count)

    def end_forward(self, run: Run, batch: Batch) -> None:
        """Takes the losses and outputs of a program."""
        program = run.program
        self._plans.check_files()
        self.take(run, batch, sum([a.item() for a in program.losses]))
        if batch.look is not None:
            batch.look(program, run.at, run.count)
        if program.seen:
            self._see(program, run.count)
        if program.statistics:  # of the whole batch, which is one run
            self.bind_statistics(program)()

    def _draw_masks(self, program: Program, step: int, first: int) -> None:
        if program not in self._draws:
            from odt.core.runtime.dropout_masks import bind_masks

            self._draws[program] = bind_masks(program, self._origin)
        self._origin[:] = self._parameters.mask_seed % 2**64, step, first
        self._draws[program]()

    def bind_statistics(self, program: Program) -> Callable[[], None]:
        """Returns the call that moves running statistics towards those of a program's batch."""
        if program not in self._moves:
            bind = self._parameters.statistics.bind
            self._moves[program] = in_order(bind(*each) for each in program.statistics)
        return self._moves[program]

    def take(self, run: Run, batch: Batch, loss: float) -> None:
        """Takes the loss of a micro-batch.

        Raises:
            NotFiniteError: if it is not finite.
        """
        if not math.isfinite(loss):
            self.fill(run, batch)
            raise NotFiniteError(run.program.first_bad() or "the sum of losses")
        self.losses.append(loss)

    def _see(self, program: Program, count: int) -> None:
        """Adds what a micro-batch saw of the ranges of activations."""
        for i, a in program.seen:
            least, most, below, above = a.tolist()  # extremes; fractions beyond the limits
            seen = np.array([least, most, below * count, above * count, count])
            merge_seen(self.seen, {i: seen})
