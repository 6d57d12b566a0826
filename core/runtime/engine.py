"""Runs batches: micro-batches on workers, gradients added up, parameters updated."""

import math
from collections.abc import Callable, Mapping, Sequence

from odt.core.planning.plan import Call
from odt.core.planning.step_mode import Loop, Update
from odt.core.planning.step_plans import StepPlans
from odt.core.runtime.activation_ranges import merge_seen
from odt.core.runtime.batch import Batch, Fill, Look
from odt.core.runtime.bound_batch import BoundBatch
from odt.core.runtime.gradients import Gradients
from odt.core.runtime.packed_weights import PackedWeights
from odt.core.runtime.parameters import Parameters
from odt.core.runtime.place import Places
from odt.core.runtime.programs import Programs
from odt.core.runtime.side_by_side import SideBySide
from odt.core.runtime.team import Team
from odt.core.runtime.threads import Threads
from odt.core.runtime.whole_batch import WholeBatch
from odt.core.runtime.worker import Worker
from odt.kernels.rows.opdef import Array


class Engine:
    """One computation, planned and bound to the arena of each worker.

    Attributes:
        plans: plans of the computation, which say how batches run.
        computation, schedule: those of `plans`.
        parameters: parameters, shared by all engines of a model.
        plan: plan of a whole micro-batch, without blocks of gradients and meetings.
        memory: memory plan of the plan.
        places: plans with the memory of each worker.
        programs: programs of steps; those that accumulate add gradients to the sums.
        sums: sums of the gradients.
        packed: weights that are packed at the beginning of a step.
    """

    def __init__(
        self,
        plans: StepPlans,
        parameters: Parameters,
        team: Team,
        arenas: Sequence[Array],
    ) -> None:
        """Binds programs to the arenas.

        Args:
            plans: plans of the computation.
            parameters: parameters, shared by all engines of a model.
            team: threads of the workers.
            arenas: one arena for each worker.
        """
        self.plans, self.computation, self.schedule = plans, plans.computation, plans.schedule
        self.parameters = parameters
        self._team = team
        self._arenas = arenas
        size = self.schedule.micro_batch
        self.plan, self.memory = plans.plans.at(self.computation, size)
        if any(isinstance(e, Call) and e.compiled is None for e in self.plan.entries):
            team.limit_blas()
        self.sums = Gradients(plans, parameters)
        self.places = Places(plans, arenas)
        self.packed = PackedWeights(plans.packed)
        self._workers = [Worker(k, plans.plans, parameters, self.sums) for k in range(len(arenas))]
        self._loop = self._make_loop()
        in_place = plans.mode.in_place
        self.programs = self._make_programs(in_place=in_place)
        self._adding = None if in_place else self.programs  # programs of `accumulate`
        self._pulls = parameters.pulls  # for which the programs are bound
        self._other: Engine | None = None  # with a proximal term, or without
        self._scales: dict[tuple[int, str], list[float]] = {}
        self._accumulated = 0  # samples whose gradients the next update uses
        self._seen: dict[int, Array] = {}  # ranges of activations in a step, as workers saw them
        if plans.packed:
            first = self.programs.program(0, (size,) * len(arenas))
            self.packed.bind(first, len(arenas))

    def _make_loop(self) -> Threads | SideBySide | WholeBatch:
        arguments = self.plans, self._team, self._workers
        match self.plans.mode.loop:
            case Loop.THREADS:
                return Threads(*arguments)
            case Loop.SIDE_BY_SIDE:
                return SideBySide(*arguments, self.sums)
            case Loop.WHOLE_BATCH:
                return WholeBatch(*arguments, self.sums)

    def _make_programs(self, *, in_place: bool) -> Programs:
        weights, packed = self.parameters.read, self.packed.arrays
        arguments = self.schedule, self.places, self.sums, weights, packed
        return Programs(*arguments, in_place=in_place)

    def loss_scales(self, samples: int, reduction: str) -> list[float]:
        """Returns the factors of the losses: a mean is over the batch, not over a micro-batch."""
        key = samples, reduction
        if key not in self._scales:
            weights = [loss.weight for loss in self.computation.losses]
            rows = [self.plan.values[n].spec.shape[0] for n in self.plan.targets]
            m = self.schedule.micro_batch
            means = [w * m / (samples * r) for w, r in zip(weights, rows, strict=True)]
            self._scales[key] = weights if reduction == "sum" else means
        return self._scales[key]

    @property
    def gradient_nbytes(self) -> int:
        """Bytes of the gradient sums of all workers."""
        return self.sums.nbytes

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
        update = self.plans.mode.update
        if update is Update.DURING and self.parameters.pulls != self._pulls:
            return self._with_other_updates().run(samples, scales, fill, look)
        trains = update is not Update.NEVER
        if trains:
            self.parameters.begin_update()
        self._seen.clear()
        batch = Batch(samples, scales, fill, look, self.parameters.step)
        try:
            loss = self._compute(self.programs, batch)
        except Exception:
            if trains:
                self.parameters.step -= 1
            raise
        if trains:
            self.sums.update(self._team)
        self._move_ranges()
        return loss

    def _with_other_updates(self) -> "Engine":
        """The engine whose programs update with a proximal term if this one's do without."""
        if self._other is None:
            plans = self.plans.with_whole_gradients()
            self._other = Engine(plans, self.parameters, self._team, self._arenas)
        return self._other

    def accumulate(
        self, samples: int, scales: Sequence[float], fill: Fill, look: Look | None = None
    ) -> float:
        """Accumulates the gradients of a batch until `apply`; an error discards all of them.

        Arguments and result are those of `run`.
        """
        assert self.plans.mode.update is not Update.DURING, "no gradient is left after a step"
        before, self._accumulated = self._accumulated, 0  # an error leaves none
        if not before:
            self._seen.clear()
        if self._adding is None:
            self._adding = self._make_programs(in_place=False)
        batch = Batch(samples, scales, fill, look, self.parameters.step + 1, before)
        loss = self._compute(self._adding, batch)
        self.sums.add_up(self._team)
        self._accumulated = before + samples
        return loss

    def bind(self, samples: int, scales: Sequence[float], fill: Fill) -> Callable[[], float] | None:
        """Binds `accumulate` to batches for which no gradients are accumulated before.

        Args:
            samples, scales, fill: as for `run`.

        Returns:
            A function without arguments; None if a step is more than one compiled call.
        """
        assert self._adding is not None, "a batch was accumulated"
        runs = self._adding.runs(samples)
        parameters = self.parameters
        run = runs[0][0]
        program = run.program
        prepares = self.packed.arrays or parameters.rounding or parameters.ranges.ends
        is_one_call = len(runs) == len(runs[0]) == 1 and program.loops is not None
        if not is_one_call or prepares or program.masks or program.seen:
            return None
        if not self.sums.are_complete:
            return None
        batch = Batch(samples, scales, fill, None, update=1)
        bound = BoundBatch(run, batch, self._workers[0], self._team, self.plans.plans)
        adds = self.sums.adds[0]

        def accumulate() -> float:
            assert not self._accumulated, "this is the first batch of the update"
            adds[0] = False
            loss = bound.run()
            self._accumulated = samples
            return loss

        return accumulate

    def apply(self, *, keep: bool = False) -> None:
        """Updates the parameters by the accumulated gradients, and resets these to zero.

        Args:
            keep: whether the arrays of `gradients` keep their values until the next batch.
        """
        if self._accumulated:
            self.parameters.begin_update()
            self.sums.update(self._team, keep=keep)
            self._move_ranges()
        self._accumulated = 0

    @property
    def gradients(self) -> Mapping[int, Array]:
        """The accumulated gradients by tensor index; empty if there are none."""
        return self.sums.sums[0] if self._accumulated else {}

    def _compute(self, programs: Programs, batch: Batch) -> float:
        """Computes the loss of a batch, and sums its gradients or uses them immediately."""
        self.parameters.fake_quantize()
        self.packed.pack(self._team)
        active = self._workers[: len(programs.runs(batch.samples))]
        self.sums.begin(len(active), keep=batch.before > 0)
        self._loop.run(programs, batch)
        for worker in active:
            if worker.seen:
                merge_seen(self._seen, worker.seen)
        return math.fsum([loss for worker in active for loss in worker.losses])

    def _move_ranges(self) -> None:
        """Moves the ranges of quantized activations towards those of a step."""
        if self._seen:
            self.parameters.ranges.see(self._seen, max(self.parameters.step, 1))
