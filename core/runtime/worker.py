"""A worker of an engine: an arena, programs bound to it, and how these run micro-batches."""

import math
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from odt.core.planning.computation import Computation, Plans
from odt.core.runtime.activation_ranges import merge_seen
from odt.core.runtime.batch import Batch, NotFiniteError, Run
from odt.core.runtime.gradients import Gradients, Place
from odt.core.runtime.packed_weights import PackedWeights
from odt.core.runtime.parameters import Parameters
from odt.core.runtime.program import Outside, Program, Twin
from odt.kernels.rows.opdef import Array

if TYPE_CHECKING:
    from typing import Protocol

    class Owner(Protocol):
        """What a worker reads of its engine."""

        plans: Plans
        computation: Computation
        parameters: Parameters
        sums: Gradients
        packed: PackedWeights
        at_once: bool
        in_place: bool

        def place(self, worker: int, samples: int) -> Place: ...

        def fill_masks(self, program: Program, first: int, count: int) -> None: ...


class Worker:
    """An arena, and the programs bound to it.

    Attributes:
        seen: what the micro-batches saw of the ranges of activations.
    """

    def __init__(self, engine: "Owner", number: int, first: "Worker | None" = None) -> None:
        # Without a cycle, memory and mapped files are free as soon as the engine is.
        self.engine: Owner = weakref.proxy(engine)
        self.number = number
        self._first = first  # worker whose programs this one copies, if any
        self.losses: list[float] = []
        self.seen: dict[int, Array] = {}
        self._programs: dict[tuple[object, ...], Program] = {}

    def program(self, sizes: Sequence[int]) -> Program:
        """The program for a micro-batch, by the samples of all workers' micro-batches."""
        engine, samples = self.engine, sizes[self.number]
        together = tuple(sizes) if engine.sums.meets else samples
        key = together, engine.in_place, engine.at_once and engine.parameters.pulls
        if key not in self._programs:
            all_sizes = enumerate(sizes) if engine.sums.meets else [(self.number, samples)]
            places = {k: engine.place(k, n) for k, n in all_sizes}
            first = self._first if sizes[0] == samples else None
            twin = first.twin(key, self) if first else None
            deliver = engine.sums.deliver(self.number, places)
            at, read = places[self.number], engine.parameters.read
            adds = None if engine.in_place else engine.sums.adds[self.number]
            sums = engine.sums.in_place(self.number, at.plan, adds=adds is not None)
            outside = Outside(sums, adds, engine.packed.arrays)
            self._programs[key] = Program(
                at.plan, at.memory, at.arena, read, deliver, twin=twin, outside=outside
            )
        return self._programs[key]

    def twin(self, key: tuple[object, ...], other: "Worker") -> Twin | None:
        """The program of this worker, with what another one has instead of its arrays."""
        program, sums = self._programs.get(key), self.engine.sums
        arrays = sums.moved(self.number, other.number)
        return None if program is None else Twin(program, arrays, sums.met)

    def run(self, runs: Sequence[Run], batch: Batch) -> None:
        """Runs micro-batches, beside those of other workers."""
        sums = self.engine.sums
        self.begin()
        try:
            for run in runs:
                self.fill(run, batch)
                run.program.forward()
                self.end_forward(run, batch)
                if self.engine.computation.backward and not sums.failed:
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
        samples = run.program.samples
        for array, scale in zip(samples.scales, batch.scales, strict=True):
            array.fill(scale)
        self.engine.fill_masks(run.program, run.at, run.count)
        batch.fill(samples, run.at, run.count)

    def end_forward(self, run: Run, batch: Batch) -> None:
        """Takes the losses and outputs of a program."""
        program = run.program
        self.engine.plans.check_files()
        self.take(run, batch, sum([a.item() for a in program.losses]))
        if batch.look is not None:
            batch.look(program, run.at, run.count)
        if program.seen:
            self.see(program, run.count)

    def take(self, run: Run, batch: Batch, loss: float) -> None:
        """Takes the loss of a micro-batch."""
        if not math.isfinite(loss):
            self.fill(run, batch)
            raise NotFiniteError(run.program.first_bad() or "the sum of losses")
        self.losses.append(loss)

    def see(self, program: Program, count: int) -> None:
        """Adds what a micro-batch saw of the ranges of activations."""
        for i, a in program.seen:
            least, most, below, above = a.tolist()
            seen = np.array([least, most, below * count, above * count, count])
            merge_seen(self.seen, {i: seen})
