"""Forecasts the memory of training before anything is allocated."""

from collections.abc import Sequence

from odt.core.model.training_info import TrainingInfo
from odt.core.planning.computation import Computation, Plans
from odt.core.planning.gradient_sums import tables_of
from odt.core.planning.lifetimes import Lifetime, lifetimes_without_overlays, live_bytes
from odt.core.planning.mapped_weights import mapped_weights, nbytes_in_use
from odt.core.planning.memory import MemoryPlan, separate_nbytes
from odt.core.planning.plan import Call, Plan, Region
from odt.core.planning.schedule import Schedule, frozen_samples
from odt.core.planning.step_plans import StepPlans
from odt.core.storage.mapped_pages import DATA_PAGES
from odt.dataclass import dataclass
from odt.kernels.native.target import Target, other_target
from odt.kernels.registry import OPTIMIZERS

# Other bytes by which a process grows, as measured: code that runs for the first time, plans and
# programs, and the BLAS buffers of each thread that multiplies.
START = 100_000
ENTRY = 5_000  # per entry of the plan
BOUND_ENTRY = 3_500  # per entry and worker
TENSOR = 650  # per tensor of the file that no entry computes: loops that were merged have many
SEARCH_ENTRY = 2_000  # per entry, left over from the search for plans within a budget
BLAS = 300_000
PRODUCT = 1_000_000  # operations above which a call without a compiled form uses BLAS


@dataclass(frozen=True, slots=True)
class Forecast:
    """Memory of training, in bytes, for given plans and schedule.

    Attributes:
        plans: plans of the model, rewritten or not.
        schedule: micro-batches and workers.
        plan: plan for a micro-batch of a training step.
        running: the same as programs run it: with gradients in blocks, and meetings of workers.
        memory: memory plan of `running`.
        parameters: copies of the weights that train, two if they are fake-quantized; copies of
            rows that train; and the masks of sparse constants.
        slots: optimizer state, with moving averages of the weights.
        gradients: sums of the gradients; those updated immediately have none.
        arena: arenas of all workers together; validation uses the same arenas.
        separate: bytes of the values in them without reuse of memory and blocks of gradients.
        constants: pages of the mapped model that are in use at a time: weights that do not train.
        data: pages of mapped data files, and the samples of a whole batch if steps are short; 0
            for a C program.
        overhead: Python objects and libraries; 0 for a C program.
        packed: weights that are packed once in a step.
        row_sums: those of `gradients` that are sums of rows of tables.
        dequantized: values of the weights that train as read from a file that stores them in
            another type; those of other files are mapped; 0 for a C program.
        averages: moving averages of the weights, which begin as copies.
        frozen: arenas that compute a cached frozen part, in the first epoch only.
        cache: values of the frozen part, if cached in memory, and copies of the best weights.
        target: machine that runs a C program; None for a process of this machine.
    """

    plans: Plans
    schedule: Schedule
    plan: Plan
    running: Plan
    memory: MemoryPlan
    parameters: int
    slots: int
    gradients: int
    arena: int
    separate: int
    constants: int
    data: int
    overhead: int
    packed: int = 0
    row_sums: int = 0
    dequantized: int = 0
    averages: int = 0
    frozen: int = 0
    cache: int = 0
    target: Target | None = None

    @property
    def total(self) -> int:
        """Bytes allocated for training."""
        return self.parameters + self.slots + self.gradients + self.arena + self.packed

    @property
    def peak(self) -> int:
        """Bytes by which the process grows beyond Python, its modules and libraries.

        Those of a C program are its static memory.
        """
        return self._peak(self.frozen)

    @property
    def later(self) -> int:
        """Peak of later epochs, when the frozen part has been computed."""
        return self._peak(0)

    def _peak(self, frozen: int) -> int:
        """Returns the larger memory of two phases: copying weights from the file, and training.

        Optimizer state is zero until the first update, and takes no memory before it.
        """
        if self.target is not None:
            return self.total
        copying = self.parameters + self.averages
        persistent = self.slots + self.gradients + self.arena + self.packed
        running = persistent + frozen + self.constants + self.data
        constant = self.parameters + self.dequantized + self.cache
        return constant + max(running, copying) + self.overhead


def forecast(
    plans: Plans,
    computations: tuple[Computation, ...],
    info: TrainingInfo,
    schedule: Schedule,
    *,
    searched: bool = False,
) -> Forecast:
    """Forecasts the memory of a schedule.

    Args:
        plans: plans of the model.
        computations: training first, then validation; if they begin after a frozen part, that part
            runs too until its values are cached.
        info: resolved training info; its optimizer determines the slots.
        schedule: micro-batches and workers.
        searched: whether the plan results from a search.
    """
    size = schedule.micro_batch
    plan = plans.plan(computations[0], size)
    runs = [plan]
    frozen = 0
    if computations[0].begin:
        part = Computation(end=computations[0].begin)
        frozen_plan, frozen_memory = plans.at(
            part, frozen_samples(lambda n: plans.at(part, n), size)
        )
        runs = [frozen_plan, plan]
        frozen = schedule.workers * frozen_memory.nbytes
    gradients = plan.gradient_nbytes
    trained = sum(plan.values[name].spec.nbytes for name in gradients)
    rounded = sum(plan.values[n].spec.nbytes for n in gradients if _is_rounded(plans, plan, n))
    masks = sum(-(-plan.values[n].spec.size // 8) for n in gradients if _is_sparse(plan, n))
    # Updates change a copy of the rows of a parameter that trains in part.
    rows = sum(n for name, n in gradients.items() if n < plan.values[name].spec.nbytes)
    averages = trained if info.ema else 0
    rule = OPTIMIZERS[info.optimizer]
    attrs = rule.attrs(**info.hyper_parameters)
    slots = [s for p in plan.trained_specs.values() for s in rule.state(attrs, p).values()]
    in_parts = rule.compiled is not None and not info.ema and not info.sparse
    keep = info.keeps_gradients
    tables = tables_of(info)
    steps = [
        StepPlans(plans, c, schedule, keep=keep, in_parts=in_parts, tables=tables)
        for c in computations
    ]
    running, memory = steps[0].at(size)
    target = other_target()
    data = overhead = dequantized = 0  # a C program has neither files nor Python
    if target is None:
        batch = sum(spec.nbytes for spec in steps[0].mode.batch_arrays.values())
        data = DATA_PAGES + schedule.workers * _read_at_once(runs) + batch
        overhead = _overhead(runs, schedule, entry_nbytes(schedule, searched=searched))
        dequantized = sum(_own_memory(plan, name) for name in gradients)
    return Forecast(
        plans,
        schedule,
        plan,
        running,
        memory,
        parameters=trained + rounded + masks + rows,
        slots=sum(spec.nbytes for spec in slots) + averages,
        gradients=steps[0].sums.nbytes(plan, schedule.workers),
        arena=schedule.workers * max(each.arena_nbytes for each in steps),
        separate=schedule.workers * separate_nbytes(plan),
        constants=_constants(runs),
        data=data,
        overhead=overhead,
        packed=steps[0].packed_nbytes,
        row_sums=sum(t.nbytes(schedule.workers) for t in steps[0].sums.tables.values()),
        dequantized=dequantized,
        averages=averages,
        frozen=frozen,
        target=target,
    )


def _is_rounded(plans: Plans, plan: Plan, name: str) -> bool:
    """Whether a parameter has a fake-quantized copy."""
    i = plan.values[name].tensor
    quantized = i is not None and plan.graph.tensors[i].quantization is not None
    return quantized and i not in plans.rounded and plan.values[name].spec.dtype.kind == "f"


def _is_sparse(plan: Plan, name: str) -> bool:
    """Whether a parameter is a sparse constant, so that some of its values stay 0."""
    i = plan.values[name].tensor
    return i is not None and plan.graph.tensors[i].places is not None


def _own_memory(plan: Plan, name: str) -> int:
    """Returns the bytes of a parameter's first values if they are not a view of the file."""
    i = plan.values[name].tensor
    data = None if i is None else plan.graph.tensors[i].data
    return data.nbytes if data is not None and data.flags.owndata else 0


def _constants(runs: Sequence[Plan]) -> int:
    """Returns the bytes of the constants of all plans, each counted once.

    Of weights whose pages are released, those in use at a time are counted.
    """
    sizes = {
        name: value.spec.nbytes
        for plan in runs
        for name, value in plan.values.items()
        if value.region is Region.CONSTANT and value.base is None
    }
    mapped = [mapped_weights(plan) for plan in runs]
    others = sizes.keys() - set().union(*mapped)
    in_use = max(map(nbytes_in_use, runs, mapped))
    return sum(sizes[name] for name in others) + in_use


def _read_at_once(runs: Sequence[Plan]) -> int:
    """Returns bytes that a worker reads at once: inputs of the first plan, targets of the last."""
    first, last = runs[0], runs[-1]
    inputs = sum(first.values[name].spec.nbytes for name in first.inputs)
    return inputs + sum(last.values[name].spec.nbytes for name in last.targets)


def entry_nbytes(schedule: Schedule, *, searched: bool) -> int:
    """Returns the bytes of the Python objects of an entry; arguments as for `forecast`."""
    return ENTRY + BOUND_ENTRY * schedule.workers + (SEARCH_ENTRY if searched else 0)


def _overhead(runs: Sequence[Plan], schedule: Schedule, of_entry: int) -> int:
    """Returns the bytes of Python objects and libraries; `of_entry`: those of an entry."""
    entries = [entry for plan in runs for entry in plan.entries]
    multiplies = any(
        isinstance(s, Call) and s.compiled is None and s.flops > PRODUCT for s in entries
    )
    threads = max(schedule.workers, schedule.blas_threads) if multiplies else 0
    others = max(len(runs[-1].graph.tensors) - len(entries), 0)
    return START + len(entries) * of_entry + others * TENSOR + threads * BLAS


@dataclass(frozen=True, slots=True)
class Peak:
    """The entry of a plan at which the most bytes are alive.

    Attributes:
        entry: label of the entry.
        phase: forward or backward.
        alive: values that are alive, with their lifetimes, the largest first.
    """

    entry: str
    phase: str
    alive: tuple[tuple[str, Lifetime], ...]


def peak(plan: Plan) -> Peak:
    """Finds the peak of a plan. A value that overlays another one is counted once for both."""
    alive = lifetimes_without_overlays(plan)
    used = live_bytes(plan, alive)
    k = used.index(max(used))
    entry = plan.entries[k]
    label = entry.label if isinstance(entry, Call) else f"{entry.gradient} is taken"
    phase = entry.phase.value if isinstance(entry, Call) else "backward"
    largest = sorted(
        (n for n, life in alive.items() if life.first <= k <= life.last),
        key=lambda n: -plan.values[n].spec.nbytes,
    )
    return Peak(label, phase, tuple((n, alive[n]) for n in largest))
