"""Runs batches: micro-batches on workers, gradients added up, parameters updated."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product

from odt.core.planning.computation import held_samples, is_side_by_side
from odt.core.planning.plan import Call
from odt.core.planning.step_plans import StepPlans
from odt.core.runtime.activation_ranges import merge_seen
from odt.core.runtime.batch import Batch, Fill, Look, Run
from odt.core.runtime.dropout_masks import fill_masks
from odt.core.runtime.gradients import Gradients, Place
from odt.core.runtime.packed_weights import PackedWeights
from odt.core.runtime.parameters import Parameters
from odt.core.runtime.program import Program, Samples, large_enough
from odt.core.runtime.team import Team
from odt.core.runtime.whole_batch import WholeBatch, hold
from odt.core.runtime.worker import Worker
from odt.kernels.native.binding import side_by_side
from odt.kernels.rows.opdef import Array


class Engine:
    """One computation, planned and bound to the arena of each worker.

    Attributes:
        plan: plan of a whole micro-batch, without blocks of gradients and meetings.
        memory: memory plan of the plan.
        sums: sums of the gradients.
        at_once: whether weights are updated as soon as their gradients are complete.
        packed: weights that are packed at the beginning of a step.
        in_place: whether gradients are computed in the sums, since each worker has one micro-batch.
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
        self.step_plans, self.plans = plans, plans.plans
        self.computation = computation = plans.computation
        self.schedule = schedule = plans.schedule
        self.parameters = parameters
        self.team = team
        self.plan, self.memory = self.plans.at(computation, schedule.micro_batch)
        if any(isinstance(e, Call) and e.compiled is None for e in self.plan.entries):
            team.limit_blas()
        self._trains = computation.backward and bool(self.plan.parameters)
        self._update_number = self._before = 0  # of masks: step, and its samples before this batch
        self.sums = Gradients(plans, parameters)
        self.at_once = self.sums.at_once
        one_each = schedule.micro_batch * schedule.workers >= schedule.batch
        self.in_place = self._one_each = one_each and not plans.keep
        self._short = is_side_by_side(self.plan, schedule, meets=self.sums.meets)
        self._held: Samples | None = None
        if self._short and self._trains:
            self._held = hold(self.plan, held_samples(self.plan, computation.losses, schedule))
        # of a number of samples, and whether gradients are computed in place
        self._whole: dict[tuple[int, bool], WholeBatch | None] = {}
        self._runs: dict[tuple[object, ...], list[list[Run]]] = {}
        self._scales: dict[tuple[int, str], list[float]] = {}
        self._accumulated = False
        self._arenas = arenas
        self.packed = PackedWeights(plans.packed)
        self._places: dict[tuple[int, int], Place] = {}
        first = Worker(self, 0)
        self._workers = [first, *(Worker(self, k, first) for k in range(1, len(arenas)))]
        self._seen: dict[int, Array] = {}  # of the ranges of activations, in a step
        self._at_end: Engine | None = None  # which updates all weights at the end of a step
        if self.sums.meets:
            self._runs_of(schedule.batch)
        else:
            for worker, n in product(self._workers, schedule.sizes):
                worker.program((n,) * len(arenas))
        if plans.packed:
            whole = first.program((schedule.micro_batch,) * len(arenas))
            self.packed.bind(whole, len(arenas))

    def _runs_of(self, samples: int) -> list[list[Run]]:
        """Returns the micro-batches of each worker for a number of samples."""
        key = samples, self.in_place, self.at_once and self.parameters.pulls
        if key not in self._runs:
            parts = self.schedule.parts(samples)
            runs = self._runs[key] = [[] for _ in parts]
            for number in range(len(parts[0])):
                together = [part[number] for part in parts if number < len(part)]
                sizes = tuple(count for _, count in together)
                for worker, made, run in zip(self._workers, runs, together, strict=False):
                    made.append(Run(worker.program(sizes), *run))
        return self._runs[key]

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

    def place(self, worker: int, samples: int) -> Place:
        """Returns the plan for a number of samples with a worker's memory."""
        key = worker, samples
        if key not in self._places:
            plan, memory = self.step_plans.verified(samples)
            arena = large_enough(self._arenas[worker], memory)
            self._places[key] = Place(plan, memory, arena)
        return self._places[key]

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
        if self.at_once and self.parameters.pulls and not self.step_plans.whole:
            return self._at_the_end().run(samples, scales, fill, look)
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
        if self._trains:
            self.sums.update(self.team)
        self._move_ranges()
        return loss

    def _at_the_end(self) -> "Engine":
        """The engine that updates whole weights, with a proximal term."""
        if self._at_end is None:
            plans = self.step_plans.at_the_end()
            self._at_end = Engine(plans, self.parameters, self.team, self._arenas)
        return self._at_end

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
        self.sums.add_up(self.team)
        self._accumulated = True
        self._before += samples
        return loss

    def apply(self) -> None:
        """Updates the parameters by the accumulated gradients, and resets these to zero."""
        if self._accumulated:
            self.parameters.begin_update()
            self.sums.update(self.team)
            self._move_ranges()
        self._accumulated = False

    @property
    def gradients(self) -> Mapping[int, Array]:
        """The accumulated gradients by tensor index; empty if there are none."""
        return self.sums.sums[0] if self._accumulated else {}

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
        self.packed.pack(self.team)
        runs = self._runs_of(samples)
        active = self._workers[: len(runs)]
        self.sums.begin(len(active), keep=keep)
        batch = Batch(scales, fill, look)
        whole = self._whole_batch(samples, runs) if self._held and look is None else None
        if whole:
            self.team.run([partial(self._run_whole, whole, batch)])
        elif self._short and is_compiled(runs):
            self.team.run([partial(self._run_side_by_side, runs, batch)])
        else:
            tasks = zip(active, runs, strict=True)
            self.team.run([partial(worker.run, each, batch) for worker, each in tasks])
        if self._trains and not self.at_once and not whole:
            self.plans.check_files()  # backward reads constants, too
        for worker in active:
            merge_seen(self._seen, worker.seen)
        return math.fsum(loss for worker in active for loss in worker.losses)

    def _whole_batch(self, samples: int, runs: list[list[Run]]) -> WholeBatch | None:
        """Binds the micro-batches of a number of samples as one call, if they can be."""
        key = samples, self.in_place
        if self._held and key not in self._whole:
            whole = WholeBatch(self._held, runs, self.sums.adds) if is_compiled(runs) else None
            self._whole[key] = whole
        return self._whole[key]

    def _run_whole(self, whole: WholeBatch, batch: Batch) -> None:
        """Runs the micro-batches of all workers by one call."""
        whole.run(batch)
        self.plans.check_files()  # which backward reads, too
        for worker in self._workers:
            worker.begin()
        for worker, runs in zip(self._workers, whole.runs, strict=False):
            for run, loss in zip(runs, whole.losses(worker.number), strict=True):
                worker.take(run, batch, loss)

    def _run_side_by_side(self, runs: Sequence[Sequence[Run]], batch: Batch) -> None:
        """Runs the micro-batches of all workers, as `Worker.run`, from one thread of Python.

        Threads of the library compute them, so that none waits for the interpreter lock, or to be
        woken up.
        """
        for worker in self._workers:
            worker.begin()
        for number in range(len(runs[0])):
            each = zip(self._workers, runs, strict=False)
            given = [(worker, part[number]) for worker, part in each if number < len(part)]
            loops = [run.program.loops for _, run in given if run.program.loops]
            for worker, run in given:
                worker.fill(run, batch)
            separate = batch.look is not None or bool(given[0][1].program.seen)
            side_by_side([[forward if separate else step] for forward, _, step in loops])()
            for worker, run in given:
                worker.end_forward(run, batch)
            if separate:
                side_by_side([[backward] for _, backward, _ in loops])()
            for worker, _ in given:
                self.sums.end_run(worker.number)

    def _move_ranges(self) -> None:
        """Moves the ranges of quantized activations towards those of a step."""
        if self._seen:
            self.parameters.ranges.see(self._seen, max(self.parameters.step, 1))


def is_compiled(runs: Sequence[Sequence[Run]]) -> bool:
    """Whether all calls of all runs are compiled."""
    return all(run.program.loops for each in runs for run in each)
