"""What training will take, said before anything is allocated."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from odt.core.model.training_info import TrainingInfo
from odt.core.planning.computation import Computation, Plans
from odt.core.planning.lifetimes import Lifetime, lifetimes, replacements
from odt.core.planning.memory import MemoryPlan
from odt.core.planning.plan import Call, Plan, Region
from odt.core.planning.schedule import Schedule, frozen_samples
from odt.kernels.registry import find_optimizer

DATA_PAGES = 2**20  # bytes that may be mapped of each data file at a time, within a budget
# What else a process grows by, as measured: code that is used for the first time, the plans and
# programs themselves, and what BLAS sets aside for each thread that multiplies.
START = 1_000_000
ENTRY = 6_500  # for each step of the plan
BOUND_ENTRY = 4_500  # and for each worker
SEARCH_ENTRY = 5_000  # and what looking for a plan within a budget leaves behind
BLAS = 300_000
PRODUCT = 1_000_000  # arithmetic from which a call without a compiled form is BLAS's


@dataclass(frozen=True, slots=True)
class Forecast:
    """Training's memory, in bytes, and what it comes from.

    Attributes:
        plans: of the model, to train by.
        schedule: micro-batches and workers.
        plan: of a micro-batch of a training step.
        memory: its memory plan.
        parameters: copies of what is trained.
        slots: optimizer state.
        gradients: where micro-batches add up; 0 if each weight is updated at once.
        arena: of all workers together; validation uses the same.
        constants: pages of the mapped model that stay in use: weights that do not train.
        data: pages of mapped data files.
        overhead: objects and libraries.
        frozen: arenas in which a part that is cut off is computed, in the first epoch only.
        cache: in which that part's values are kept, where that is in memory, and copies of weights.
    """

    plans: Plans
    schedule: Schedule
    plan: Plan
    memory: MemoryPlan
    parameters: int
    slots: int
    gradients: int
    arena: int
    constants: int
    data: int
    overhead: int
    frozen: int = 0
    cache: int = 0

    @property
    def total(self) -> int:
        """What is allocated for training."""
        return self.parameters + self.slots + self.gradients + self.arena

    @property
    def peak(self) -> int:
        """What the process grows by, beyond Python, its modules and libraries."""
        return self._peak(self.frozen)

    @property
    def later(self) -> int:
        """What of it later epochs need, when a part that is cut off has been computed."""
        return self._peak(0)

    def _peak(self, frozen: int) -> int:
        """While weights are copied the file's pages are there, but nothing of arenas yet."""
        running = self.arena + frozen + self.constants + self.data
        kept = self.total - self.arena + self.cache
        return kept + max(running, self.parameters) + self.overhead


def forecast(
    plans: Plans,
    computations: tuple[Computation, ...],
    info: TrainingInfo,
    schedule: Schedule,
    *,
    searched: bool = False,
) -> Forecast:
    """Adds up what a schedule takes.

    Args:
        plans: of the model.
        computations: what runs, training first; one that begins behind the frozen part runs that
            part too, as far as its values are not cached.
        info: its optimizer decides about slots.
        schedule: how the batch is cut.
        searched: whether the plan was looked for.
    """
    size = schedule.micro_batch
    plan, memory = plans.at(computations[0], size)
    runs, frozen = [plan], 0
    if computations[0].begin:
        part = Computation(end=computations[0].begin)
        before, room = plans.at(part, frozen_samples(lambda n: plans.at(part, n), size))
        runs, frozen = [before, plan], schedule.workers * room.nbytes
    gradients = plan.gradient_nbytes
    trained = sum(plan.values[name].spec.nbytes for name in gradients)
    wanted = sum(gradients.values())
    rule = find_optimizer(info.optimizer)
    slots = rule.slots(rule.attrs(**info.hyper_parameters))
    at_once = size == schedule.batch and schedule.workers == 1
    return Forecast(
        plans,
        schedule,
        plan,
        memory,
        parameters=trained + sum(n for p, n in gradients.items() if n < plan.values[p].spec.nbytes),
        slots=len(slots) * wanted,
        gradients=0 if at_once else wanted,
        arena=schedule.workers * plans.arena_nbytes(computations, schedule),
        constants=_constants(runs),
        data=DATA_PAGES + schedule.workers * _read_at_once(runs),
        overhead=_overhead(runs, schedule, SEARCH_ENTRY if searched else 0),
        frozen=frozen,
    )


def _constants(runs: Sequence[Plan]) -> int:
    """Of all that run, each once."""
    found = {
        name: value.spec.nbytes
        for plan in runs
        for name, value in plan.values.items()
        if value.region is Region.CONSTANT and value.base is None
    }
    return sum(found.values())


def _read_at_once(runs: Sequence[Plan]) -> int:
    """By a worker: inputs of what runs first, targets of what trains."""
    first, last = runs[0], runs[-1]
    inputs = sum(first.values[name].spec.nbytes for name in first.inputs)
    return inputs + sum(last.values[name].spec.nbytes for name in last.targets)


def _overhead(runs: Sequence[Plan], schedule: Schedule, search: int) -> int:
    entries = [entry for plan in runs for entry in plan.entries]
    multiplies = any(
        isinstance(s, Call) and s.compiled is None and s.flops > PRODUCT for s in entries
    )
    threads = max(schedule.workers, schedule.blas_threads) if multiplies else 0
    an_entry = ENTRY + BOUND_ENTRY * schedule.workers + search
    return START + len(entries) * an_entry + threads * BLAS


@dataclass(frozen=True, slots=True)
class Peak:
    """The step of a plan in which most is alive.

    Attributes:
        entry: its label.
        phase: it belongs to.
        alive: values and their lifetimes, the largest first.
    """

    entry: str
    phase: str
    alive: tuple[tuple[str, Lifetime], ...]


def peak(plan: Plan) -> Peak:
    """Where a plan needs most; a value that takes over another's memory stands for both."""
    alive = lifetimes(plan)
    for old in replacements(plan, alive).values():
        alive[old] = replace(alive[old], last=alive[old].last - 1)
    sizes = {name: plan.values[name].spec.nbytes for name in alive}

    def there(k: int) -> list[str]:
        return [n for n, life in alive.items() if life.first <= k <= life.last]

    k = max(range(len(plan.entries)), key=lambda k: sum(sizes[n] for n in there(k)))
    entry = plan.entries[k]
    label = entry.label if isinstance(entry, Call) else f"{entry.gradient} is taken"
    phase = entry.phase.value if isinstance(entry, Call) else "backward"
    largest = sorted(there(k), key=lambda n: -sizes[n])
    return Peak(label, phase, tuple((n, alive[n]) for n in largest))
