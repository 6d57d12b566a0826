"""Runs batches: micro-batches on workers, gradients added up, parameters updated."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from odt.core.planning.computation import Computation, Plans
from odt.core.planning.schedule import Schedule
from odt.core.runtime.activation_ranges import merge_seen
from odt.core.runtime.arena import make_arena, make_arrays
from odt.core.runtime.clipping import Clipping
from odt.core.runtime.dropout_masks import fill_masks
from odt.core.runtime.parameters import Parameters
from odt.core.runtime.program import Deliver, Program, Twin
from odt.core.runtime.workers import Task, Team
from odt.kernels.native.binding import Run, in_order
from odt.kernels.native.library import is_available
from odt.kernels.native.updates import bind_accumulate
from odt.kernels.opdef import Array

# Fills a program's inputs and targets with samples [first, first + count) of the batch, and
# multiplies its scales by the weights of these samples.
Fill = Callable[[Program, int, int], None]
# Gets a program's outputs and targets after its forward phase; arguments as for Fill.
Look = Callable[[Program, int, int], None]


# Elements of NumPy's buffers for casting and gathering. Half the default saves memory for each
# worker and is equally fast.
UFUNC_BUFFER = 4096
ALONE = 2**18  # values that one thread updates before others are awake
ALWAYS = np.ones(1, np.int64)


class NotFiniteError(Exception):
    """Raised for a loss that is NaN or infinite.

    Attributes:
        value: name in the plan of the first value that is not finite.
    """

    def __init__(self, value: str) -> None:
        super().__init__(value)
        self.value = value


def bind(
    plans: Plans,
    computation: Computation,
    batch: int,
    arena: Array,
    tensors: Mapping[int, Array],
    deliver: Deliver | None = None,
    twin: Twin | None = None,
    sums: Mapping[str, Array] | None = None,
) -> Program:
    """Binds the program for a number of samples.

    Args:
        plans: plans of the model.
        computation: the computation.
        batch: number of samples.
        arena: memory to use; if it is too small, a new arena is allocated.
        tensors: parameters by tensor index.
        deliver: returns the calls that take the gradients.
        twin: the same program on other memory.
        sums: arrays in which gradients are computed, by parameter.
    """
    plan, memory = plans.verified(computation, batch)
    if memory.nbytes > arena.nbytes:
        arena = make_arena(memory.nbytes)
    own = arena[: memory.nbytes]
    return Program(plan, memory, own, tensors, deliver, twin=twin, sums=sums)


class Engine:
    """One computation, planned and bound to the arena of each worker.

    Attributes:
        plan: plan of a whole micro-batch.
        memory: memory plan of the plan.
        at_once: whether each weight is updated as soon as its gradient is complete. Otherwise each
            worker sums the gradients of its micro-batches, without waiting for the others, and the
            sums are added in the order of the workers: equal runs give equal bits.
        in_place: whether gradients are computed in the sums, since each worker has one micro-batch.
    """

    def __init__(
        self,
        computation: Computation,
        parameters: Parameters,
        schedule: Schedule,
        team: Team,
        arenas: Sequence[Array],
        plans: Plans,
        *,
        keep_gradients: bool = False,
    ) -> None:
        """Binds programs to the arenas.

        Args:
            computation: the computation.
            parameters: parameters, shared by all engines of a model.
            schedule: micro-batches and workers.
            team: threads of the workers.
            arenas: one arena for each worker.
            plans: plans of the model.
            keep_gradients: whether to keep gradients until `apply` for any schedule.
        """
        self.computation = computation
        self.parameters = parameters
        self.schedule = schedule
        self.team = team
        self.plan, self.memory = plans.at(computation, schedule.micro_batch)
        self.plans = plans
        self._trains = computation.backward and bool(self.plan.parameters)
        one_each = schedule.micro_batch * schedule.workers >= schedule.batch
        self._update_number = self._before = 0  # of masks: step, and its samples before this batch
        self.at_once = one_each and schedule.workers == 1 and not keep_gradients
        self.in_place = self._one_each = one_each and not keep_gradients
        self._accumulated = False
        first = _Worker(self, arenas[0])
        self._workers = [first, *(_Worker(self, arena, first) for arena in arenas[1:])]
        self._seen: dict[int, Array] = {}  # of the ranges of activations, in a step
        self._summing = self._workers[:1]  # workers whose sums are not added yet, and the first
        self._bound: dict[tuple[object, ...], list[Task]] = {}

    def tensor(self, name: str) -> int:
        """Returns the tensor index of a parameter, by the name of its value."""
        tensor = self.plan.values[name].tensor
        assert tensor is not None
        return tensor

    @property
    def gradient_nbytes(self) -> int:
        """Bytes of the gradient sums of all workers."""
        return sum(a.nbytes for worker in self._workers for a in worker.sums.values())

    def run(self, samples: int, scales: Sequence[float], fill: Fill, look: Look | None) -> float:
        """Runs one batch, and updates the parameters if the computation has a backward.

        Args:
            samples: number of samples in this batch; at most the schedule's.
            scales: factor of each loss's sum over samples.
            fill: fills a program's inputs and targets.
            look: gets a program's outputs; None if not needed.

        Returns:
            The sum of the losses, before the update.

        Raises:
            NotFiniteError: if a loss is not finite; parameters are unchanged.
            LostFileError: if a file became shorter; bytes read after that were used in no update.
        """
        if self._trains:
            self.parameters.begin_update()
        self._seen.clear()
        self._update_number, self._before = self.parameters.step, 0
        self.in_place = self._one_each
        try:
            loss = self._compute(samples, scales, fill, look)
        except Exception:
            self.parameters.step -= self._trains
            raise
        if self._trains and not self.at_once:
            self._update()
        self._move_ranges()
        return loss

    def accumulate(
        self, samples: int, scales: Sequence[float], fill: Fill, look: Look | None = None
    ) -> float:
        """Accumulates the gradients of a batch until `apply`; an error discards all of them.

        Arguments and result are those of `run`.
        """
        assert not self.at_once, "each weight is updated as soon as its gradient is complete"
        kept, self._accumulated = self._accumulated, False
        if not kept:
            self._seen.clear()
        self._update_number = self.parameters.step + 1
        self._before *= kept
        self.in_place = False
        loss = self._compute(samples, scales, fill, look, keep=kept)
        self._add_sums()
        self._accumulated = True
        self._before += samples
        return loss

    def apply(self) -> None:
        """Updates the parameters by the accumulated gradients, and resets these to zero."""
        if self._accumulated:
            self.parameters.begin_update()
            self._update()
            self._move_ranges()
        self._accumulated = False

    @property
    def gradients(self) -> Mapping[int, Array]:
        """The accumulated gradients by tensor index; empty if there are none."""
        return self._workers[0].sums if self._accumulated else {}

    def fill_masks(self, program: Program, first: int, count: int) -> None:
        """Fills the masks of dropout for samples [first, first + count) of the batch."""
        if program.masks:
            first += self._before
            fill_masks(program, self.parameters.mask_seed, self._update_number, first, count)

    def _compute(
        self,
        samples: int,
        scales: Sequence[float],
        fill: Fill,
        look: Look | None,
        *,
        keep: bool = False,
    ) -> float:
        """Computes the loss of a batch, and sums its gradients or uses them immediately."""
        self.parameters.fake_quantize()
        parts = self.schedule.parts(samples)
        self._summing = active = self._workers[: len(parts)]
        for worker in active:
            worker.adds[0] = keep and worker is active[0]  # which holds the sums of earlier batches
        self.team.run(
            [
                partial(worker.run, part, scales, fill, look)
                for worker, part in zip(active, parts, strict=True)
            ]
        )
        if self._trains and not self.at_once:
            self.plans.check_files()  # backward reads constants, too
        for worker in active:
            merge_seen(self._seen, worker.seen)
        return math.fsum(loss for worker in active for loss in worker.losses)

    def _move_ranges(self) -> None:
        """Moves the ranges of quantized activations towards those of a step."""
        if self._seen:
            self.parameters.ranges.see(self._seen)

    def _update(self) -> None:
        """Updates each parameter on one of the workers."""
        optimizer = self.parameters.optimizer
        if optimizer and optimizer.clipping != Clipping():
            self._add_sums()
            optimizer.clipping.apply(self._workers[0].sums.values())
        self.team.run(self._tasks(update=True))

    def _add_sums(self) -> None:
        """Adds the sums of all workers to those of the first."""
        self.team.run(self._tasks(update=False))
        self._summing = self._workers[:1]

    def _tasks(self, *, update: bool) -> list[Task]:
        """Adds the sums of gradients, and updates the parameters; divides these among workers."""
        key = len(self._summing), update, self.parameters.pulls
        if key not in self._bound:
            # the largest first, so that all workers finish at about the same time
            sums = self._workers[0].sums
            trained = sorted(sums, key=lambda i: -sums[i].size)
            few = sum(a.size for a in sums.values()) < ALONE
            workers = self._workers[:1] if few else self._workers
            self._bound[key] = [
                in_order(
                    call
                    for i in trained[k :: len(workers)]
                    for call in self._bind_sum(i, worker.scratch, update=update)
                )
                for k, worker in enumerate(workers)
            ]
        return self._bound[key]

    def _bind_sum(self, i: int, scratch: Array, *, update: bool) -> Iterator[Run]:
        """Yields the calls that sum a gradient in the first worker's memory, and use it."""
        first, *others = (worker.sums[i] for worker in self._summing)
        for other in others:
            yield bind_add(first, other, ALWAYS)
        yield from self.parameters.bind_clear(i, first)
        if update:
            yield from self.parameters.bind_update(i, first, True, scratch)


class _Worker:
    """An arena, and the programs bound to it.

    Attributes:
        sums: tensor index → sum of the gradients of the worker's micro-batches; empty if each
            weight is updated as soon as its gradient is complete.
        seen: what the micro-batches saw of the ranges of activations.
        adds: (1,), whether the next gradients are added to the sums, or begin new ones.
    """

    def __init__(self, engine: Engine, arena: Array, first: "_Worker | None" = None) -> None:
        self.engine = engine
        self._first = first  # worker whose programs this one copies, if any
        self.arena = arena
        self.scratch = engine.parameters.scratch()
        self.adds = np.zeros(1, np.int64)
        self.losses: list[float] = []
        self.seen: dict[int, Array] = {}
        specs = {} if engine.at_once else engine.plan.trained_specs
        self.sums = make_arrays({engine.tensor(name): spec for name, spec in specs.items()})
        self._programs: dict[tuple[int, bool, bool], Program] = {}
        for samples in engine.schedule.sizes:
            self.program(samples)

    def program(self, samples: int) -> Program:
        """The program for a micro-batch."""
        engine = self.engine
        key = samples, engine.in_place, engine.at_once and engine.parameters.pulls
        if key not in self._programs:
            deliver = self._update_at_once if engine.at_once else self._add_up
            twin = self._first.twin(key, self) if self._first else None
            names = engine.plan.trained_specs if engine.in_place and self.sums else ()
            sums = {name: self.sums[engine.tensor(name)] for name in names}
            read = engine.parameters.read
            plans, computation = engine.plans, engine.computation
            self._programs[key] = bind(
                plans, computation, samples, self.arena, read, deliver, twin, sums
            )
        return self._programs[key]

    def twin(self, key: tuple[int, bool, bool], other: "_Worker") -> Twin | None:
        """The program of this worker, with what another one has instead of its arrays."""
        program, arrays = self._programs.get(key), [(self.adds, other.adds)]
        arrays += [(a, other.sums[i]) for i, a in self.sums.items()]
        return None if program is None else Twin(program, arrays)

    def run(
        self,
        part: Sequence[tuple[int, int]],
        scales: Sequence[float],
        fill: Fill,
        look: Look | None,
    ) -> None:
        """Runs micro-batches, (first sample, samples); for the rest see `Engine.run`."""
        with np.errstate(all="ignore"):  # values that are not finite are detected in the loss
            np.setbufsize(UFUNC_BUFFER)  # until the end, like the error state
            self.losses.clear()
            self.seen.clear()
            for at, count in part:
                program = self.program(count)
                self._begin(program, at, count, scales, fill)
                program.forward()
                self.engine.plans.check_files()
                loss = sum(float(a[0]) for a in program.losses)
                if not math.isfinite(loss):
                    self._begin(program, at, count, scales, fill)
                    raise NotFiniteError(program.first_bad() or "the sum of losses")
                self.losses.append(loss)
                if look is not None:
                    look(program, at, count)
                if program.seen:
                    self.see(program, count)
                if self.engine.computation.backward:
                    program.backward()
                    self.adds[0] = True

    def _begin(
        self, program: Program, at: int, count: int, scales: Sequence[float], fill: Fill
    ) -> None:
        for array, scale in zip(program.scales, scales, strict=True):
            array.fill(scale)
        self.engine.fill_masks(program, at, count)
        fill(program, at, count)

    def see(self, program: Program, count: int) -> None:
        """Adds what a micro-batch saw of the ranges of activations."""
        for i, a in program.seen:
            least, most, below, above = a.tolist()
            seen = np.array([least, most, below * count, above * count, count])
            merge_seen(self.seen, {i: seen})

    def _update_at_once(self, name: str, gradient: Array, owned: bool) -> Sequence[Run]:
        i = self.engine.tensor(name)
        return self.engine.parameters.bind_update(i, gradient, owned, self.scratch)

    def _add_up(self, name: str, gradient: Array, owned: bool) -> Sequence[Run]:
        total = self.sums[self.engine.tensor(name)]
        if gradient.ctypes.data == total.ctypes.data:
            return ()
        return (bind_add(total, gradient, self.adds),)


def bind_add(total: Array, gradient: Array, adds: Array) -> Run:
    """Returns a call of total += gradient if adds[0], else total = gradient."""
    if is_available() and total.dtype == gradient.dtype == np.float32:
        return bind_accumulate(total, gradient, adds)

    def add() -> None:
        if adds[0]:
            np.add(total, gradient, out=total)
        else:
            np.copyto(total, gradient)

    return add
