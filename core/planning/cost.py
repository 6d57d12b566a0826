"""Estimates the time of a plan: to choose among plans, and to forecast a run on another machine."""

from math import ceil

from odt.core.lowering.binding import bind_operands, bind_outputs, row_of
from odt.core.lowering.sample_axis import batched_tensors
from odt.core.model.graph import LoweredGraph
from odt.core.planning.plan import Call, Delivery, Plan
from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Arithmetic, always

SHORT_RUN = 5e-3  # seconds of a run to which waking a thread adds some per cent
FILLING = 0.02  # fraction of a run's time for filling its inputs, up to which one thread does it
TOGETHER = 1.1  # factor of a run's time while another worker runs too


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of one core.

    Attributes:
        dense: operations per second of matrix products.
        convolution: operations per second of convolutions.
        depthwise: operations per second of depthwise convolutions.
        other: operations per second of everything else.
        memory: bytes per second that operators read and write.
        call: seconds of a call of a compiled kernel beside its arithmetic, from a loop in C.
        numpy_call: the same for a kernel of NumPy.
    """

    dense: float
    convolution: float
    depthwise: float
    other: float
    memory: float
    call: float
    numpy_call: float

    def operations(self, call: Call) -> float:
        """Returns the operations per second of a call."""
        return self.rate(call.arithmetic)

    def rate(self, arithmetic: Arithmetic) -> float:
        """Returns the operations per second of a kind."""
        rate: float = getattr(self, arithmetic)
        return rate


# A core of a current machine; mostly the ratios matter. With them, the estimates of a sample of 22
# networks are 0.5 to 2 times the measured time.
CORE = Rates(
    dense=150e9,
    convolution=150e9,
    depthwise=150e9,
    other=150e9,
    memory=20e9,
    call=0.5e-6,
    numpy_call=20e-6,
)


def overhead_seconds(call: Call, rates: Rates = CORE) -> float:
    """Returns the seconds of a call that do not depend on its operands."""
    return rates.numpy_call if call.compiled is None else rates.call


def operand_seconds(plan: Plan, call: Call, rates: Rates = CORE) -> float:
    """Estimates the seconds of a call's arithmetic and memory accesses."""
    touched = sum([plan.nbytes[v] for v in call.arrays.values()])
    return call.flops / rates.operations(call) + touched / rates.memory


def call_seconds(plan: Plan, call: Call) -> float:
    """Estimates the seconds of a call on a core of a current machine."""
    return overhead_seconds(call) + operand_seconds(plan, call)


def run_seconds(plan: Plan) -> float:
    """Estimates the seconds of all calls of a plan."""
    calls = [entry for entry in plan.entries if isinstance(entry, Call)]
    seconds = sum([call_seconds(plan, call) for call in calls])
    tables = {e.parameter for e in plan.entries if isinstance(e, Delivery) and e.by_rows}
    if not tables:
        return seconds
    # Of a table, a call reads a few rows, which are as large as its result.
    read = [
        plan.values[v].spec.nbytes for call in calls for v in call.arrays.values() if v in tables
    ]
    return seconds - sum(read) / CORE.memory


def forward_seconds(graph: LoweredGraph) -> float:
    """Estimates the seconds of the operators of a graph, without calls and without weights."""
    seconds = 0.0
    batched = batched_tensors(graph)
    for node in graph.nodes:
        growing = [graph.tensors[i].spec for i in (*node.inputs, *node.outputs) if i in batched]
        row = row_of(node.op)
        if growing and row.forward.view is not always:
            operands = {**bind_operands(row, node), **bind_outputs(row, node)}
            specs = {name: graph.tensors[i].spec for name, i in operands.items()}
            rate = CORE.rate(row.arithmetic)
            seconds += row.flops(node.attrs, specs) / rate
            seconds += sum(spec.nbytes for spec in growing) / CORE.memory
    return seconds


def _sample_seconds(plan: Plan) -> float:
    """Estimates the seconds that a sample adds to a run."""
    growths = {name: value.growth for name, value in plan.values.items()}
    samples, seconds = plan.graph.samples, 0.0
    for call in plan.entries:
        if isinstance(call, Call):
            growth = sum([growths[v] for v in call.arrays.values()])
            if growth:
                operations = samples * CORE.operations(call)
                seconds += call.flops / operations + growth / CORE.memory
    return seconds


def adding_seconds(plan: Plan) -> float:
    """Estimates the seconds of adding the gradients of a run to those of earlier runs."""
    return seconds_of_adding(sum(plan.gradient_nbytes.values()))


def seconds_of_adding(nbytes: int) -> float:
    """Estimates the seconds of adding so many bytes of gradients to sums."""
    return 3 * nbytes / CORE.memory


def _divides(plan: Plan) -> bool:
    """Whether most time of the forward pass is in calls whose weights threads should divide."""
    calls = [s for s in plan.entries[: plan.forward_entries] if isinstance(s, Call)]
    divided = [s for s in calls if s.compiled and s.compiled.divides(s.attrs, s.specs)]
    if not divided:
        return False
    seconds = sum(call_seconds(plan, s) for s in calls)
    return sum(call_seconds(plan, s) for s in divided) > seconds / 2


def is_short(plan: Plan) -> bool:
    """Whether waking threads for a run is a part of its time, and filling its inputs is not."""
    seconds = run_seconds(plan)
    filled = sum(plan.values[n].spec.nbytes for n in (*plan.inputs, *plan.targets))
    return seconds < SHORT_RUN and filled / CORE.memory < FILLING * seconds


@dataclass(frozen=True, slots=True)
class RunCost:
    """Estimated seconds of a run, by its number of samples.

    Attributes:
        sample: of each sample.
        fixed: of a run beside its samples: calls, reading weights, adding gradients.
        calls: overhead of NumPy calls alone, of which the interpreter runs one at a time.
        adding: of adding gradients alone.
        divides: whether most of the time is in calls whose weights threads should divide.
    """

    sample: float
    fixed: float
    calls: float
    adding: float
    divides: bool

    @classmethod
    def from_plan(cls, plan: Plan) -> "RunCost":
        """Estimates the cost from a plan for several samples, or for one if a batch has no more."""
        seconds = run_seconds(plan)
        sample = _sample_seconds(plan) if plan.graph.samples > 1 else seconds
        numpy = [s for s in plan.entries if isinstance(s, Call) and s.compiled is None]
        calls = CORE.numpy_call * len(numpy)
        adding = adding_seconds(plan)
        fixed = max(seconds - plan.graph.samples * sample, 0.0) + adding
        return cls(sample, fixed, calls, adding, _divides(plan))

    def samples(self, fraction: float) -> int:
        """Returns the samples of which `fixed` is at most a fraction."""
        return max(ceil(self.fixed / (fraction * self.sample)), 1) if self.sample else 1


def step_seconds(plan: Plan, batch: int, micro_batch: int, workers: int) -> float:
    """Estimates the seconds of a step, without the update, which is the same for all plans."""
    runs = -(-batch // micro_batch)
    seconds = run_seconds(plan) * -(-runs // workers)
    if workers > 1:
        seconds *= TOGETHER
    return seconds + adding_seconds(plan) * runs if runs > 1 else seconds
