"""A plan: the calls that a micro-batch consists of, in order, without addresses.

Calls refer to their arrays by name, and values describe them. The region of a value is part of the
plan; its offset in the arena is part of the memory plan.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING

from odt.core.lowering.normalize.batch_statistics import RunningStatistics
from odt.core.model.graph import LoweredGraph, ranges
from odt.core.options.training_options import FILE, FOLLOW_ALL
from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Arithmetic, Attrs, Compiled, Kernel, TensorSpec

if TYPE_CHECKING:
    from odt.core.lowering.normalize.dropout import Mask


class Region(Enum):
    """Memory region of a value: it determines what fills the value, and how long it lives."""

    CONSTANT = "constant"  # the file, a read-only view; the program's life
    PARAMETER = "parameter"  # copied from the file, changed by updates; the program's life
    INPUT = "input"  # the trainer, before each run; until its last reader
    ARENA = "arena"  # calls: from the first to the last that touches it
    SUM = "sum"  # a call, which adds to it: a gradient's sum; until the update


class Phase(Enum):
    """The half of a step to which a call belongs."""

    FORWARD = "forward"
    BACKWARD = "backward"


@dataclass(frozen=True, slots=True)
class Value:
    """An array of a plan.

    Attributes:
        name: t7 is tensor 7, and d.t7 its gradient. target0, scale0 and loss0 belong to loss 0. The
            name of workspace begins with the number of its call, or with a result of the call.
        spec: shape and dtype.
        region: memory region.
        base: value of which this one is a view with another shape, or a part of a parameter or
            constant; None if it is not a view.
        tensor: index of the tensor in the graph, if the value is a tensor.
        at: position of a part in the memory of the parameter or constant, in elements.
        growth: bytes that each sample of the micro-batch adds. The choice of a schedule reads them;
            rewrites that follow it do not set them.
    """

    name: str
    spec: TensorSpec
    region: Region
    base: str | None = None
    tensor: int | None = None
    at: int = 0
    growth: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A kernel and the values to which it is bound.

    Attributes:
        label: position of the node in the file, operator, and gradient if it computes one.
        phase: forward or backward.
        kernel: the kernel in NumPy.
        attrs: attributes of the operator.
        arrays: name in the kernel → value.
        reads, writes, workspace: names of the arrays that the kernel reads, writes, and uses as
            scratch.
        specs: specs of all names of the operator, also of names that this kernel does not use.
        flops: approximate number of operations.
        arithmetic: kind of these operations.
        compiled: compiled form of the kernel, if it is used.
    """

    label: str
    phase: Phase
    kernel: Kernel
    attrs: Attrs
    arrays: Mapping[str, str]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    workspace: tuple[str, ...]
    specs: Mapping[str, TensorSpec]
    flops: int = 0
    arithmetic: Arithmetic = Arithmetic.OTHER
    compiled: Compiled | None = None

    @property
    def touched(self) -> tuple[str, ...]:
        """The values to which the kernel is bound."""
        return tuple(self.arrays.values())

    @property
    def rounds(self) -> bool:
        """Whether the factors of a product are rounded to bfloat16."""
        forms = self.kernel.compiled
        return self.compiled is not None and forms is not None and self.compiled is forms.bf16

    def values(self, names: Iterable[str]) -> tuple[str, ...]:
        """Returns the values to which names of the kernel are bound."""
        return tuple([self.arrays[n] for n in names])


@dataclass(frozen=True, slots=True)
class Delivery:
    """The point at which a parameter's gradient is complete and no later call reads the parameter.

    At this point the program adds the gradient to the sum over micro-batches, or updates the
    parameter.

    Attributes:
        parameter: the parameter.
        gradient: its gradient.
        call: computes the gradient in blocks, each of which updates a part of the parameter; None
            if the gradient exists as a whole. The gradient is then the memory of some blocks.
        by_rows: whether the call selects rows of the parameter instead, whose gradients are added
            to sums. The gradient then has no memory.
    """

    parameter: str
    gradient: str
    call: Call | None = None
    by_rows: bool = False

    @property
    def touched(self) -> tuple[str, ...]:
        """The gradient, and the values from which the call computes it."""
        return (self.gradient, *(self.call.touched if self.call else ()))

    @property
    def form(self) -> str:
        """How the call computes the gradient, as a suffix of a line."""
        form = "by rows of" if self.by_rows else "in blocks by"
        return f", {form} {self.call.label}" if self.call else ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Calls and deliveries in order, and their values.

    Attributes:
        graph: the lowered graph from which the plan was made.
        entries: calls and deliveries.
        values: values by name.
        inputs: values that the trainer fills with the model's inputs.
        targets: values that the trainer fills, one for each loss.
        scales: values that the trainer fills, one for each loss: the factor of its sum over
            samples (1,), or factors of samples or positions.
        losses: (1,) values, one for each loss.
        outputs: the model's outputs, if requested; they live until the end of the forward phase.
        rows: what metrics read of the first loss instead of outputs: −log p of each label, and the
            place of the largest output; empty if they read outputs. They live as long.
        seen: ranges of activations: the tensor of a FAKE_QUANT's numbers, and the value to which
            its call writes the range of the batch; it lives as long as the outputs.
        mixing: labels of the nodes that mix the samples of a batch.
        masks: masks of dropout, whose values the engine fills.
        statistics: values from which running statistics of batch normalizations move; they live as
            long as the outputs.
        deliveries: parameter → its delivery, in order.
        gradients: parameter → complete gradient, in the order of the deliveries.
        roots: view → the value of which it is a view, also through other views.
        first_touched, last_touched: value that is not a view → the first and the last entry that
            touches its memory.
        forward_entries: number of entries of the forward phase, which come first.
        nbytes: bytes of each value.
    """

    graph: LoweredGraph
    entries: tuple[Call | Delivery, ...]
    values: Mapping[str, Value]
    inputs: tuple[str, ...]
    targets: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    mixing: tuple[str, ...] = ()
    masks: "tuple[Mask, ...]" = ()
    seen: tuple[tuple[int, str], ...] = ()
    statistics: tuple[RunningStatistics, ...] = ()
    deliveries: Mapping[str, Delivery] = field(init=False, compare=False)
    gradients: Mapping[str, str] = field(init=False, compare=False)
    roots: Mapping[str, str] = field(init=False, compare=False)
    first_touched: Mapping[str, int] = field(init=False, compare=False)
    last_touched: Mapping[str, int] = field(init=False, compare=False)
    forward_entries: int = field(init=False, compare=False)
    nbytes: Mapping[str, int] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        deliveries = {s.parameter: s for s in self.entries if isinstance(s, Delivery)}
        object.__setattr__(self, "deliveries", deliveries)
        gradients = {name: delivery.gradient for name, delivery in deliveries.items()}
        object.__setattr__(self, "gradients", gradients)
        nbytes = {name: value.spec.nbytes for name, value in self.values.items()}
        object.__setattr__(self, "nbytes", nbytes)
        object.__setattr__(self, "roots", self._find_roots())
        first, last = self._find_touched()
        object.__setattr__(self, "first_touched", first)
        object.__setattr__(self, "last_touched", last)
        forward = (s for s in self.entries if isinstance(s, Call) and s.phase is Phase.FORWARD)
        object.__setattr__(self, "forward_entries", sum(1 for _ in forward))
        self._verify()

    @property
    def filled(self) -> tuple[str, ...]:
        """Values that are filled before a run."""
        masks = (f"t{mask.tensor}" for mask in self.masks)
        return (*self.inputs, *self.targets, *self.scales, *masks)

    @property
    def read_after_forward(self) -> tuple[str, ...]:
        """Values that are read at the end of the forward phase.

        With the outputs or rows, a metric reads the targets of the first loss.
        """
        targets = self.targets[:1] if self.outputs or self.rows else ()
        statistics = (name for s in self.statistics for name in (s.center, s.inv))
        return (*self.outputs, *self.rows, *targets, *(name for _, name in self.seen), *statistics)

    def followed(self, quant_ranges: str) -> frozenset[int]:
        """Returns the ranges of activations that move in training.

        Args:
            quant_ranges: value of the option: FILE for none, FOLLOW_ALL for all, or FOLLOW for all
                but those of the model's outputs.
        """
        if quant_ranges == FILE:
            return frozenset()
        seen = frozenset(i for i, _ in self.seen)
        if quant_ranges == FOLLOW_ALL:
            return seen
        return seen - {i for i, node in ranges(self.graph) if node.options["output"]}

    @property
    def parameters(self) -> tuple[str, ...]:
        """Parameters that are trained, in the order of their deliveries."""
        return tuple(self.gradients)

    @property
    def gradient_nbytes(self) -> dict[str, int]:
        """Bytes of the gradient of each trained parameter, or of its trained rows."""
        return {name: self.nbytes[gradient] for name, gradient in self.gradients.items()}

    @property
    def trained_specs(self) -> dict[str, TensorSpec]:
        """Specs of the trained parameters, or of their trained rows."""
        specs: dict[str, TensorSpec] = {}
        for name, gradient in self.gradients.items():
            whole, part = self.values[name].spec, self.values[gradient].spec
            shape = whole.shape if whole.size == part.size else part.shape
            specs[name] = TensorSpec(shape, part.dtype)
        return specs

    def root(self, name: str) -> str:
        """Returns the value of which a value is a view, also through other views; or itself."""
        return self.roots.get(name, name)

    def owns(self, k: int) -> bool:
        """Whether entry k is a delivery and the last entry that touches its gradient's memory.

        Only then may it destroy the gradient: views of it may be the gradients of other tensors.
        """
        entry = self.entries[k]
        return isinstance(entry, Delivery) and self.last_touched[self.root(entry.gradient)] == k

    def _find_roots(self) -> dict[str, str]:
        roots: dict[str, str] = {}
        for name, value in self.values.items():
            root = value.base
            if root is not None:
                while (base := roots.get(root, self.values[root].base)) is not None:
                    root = base
                roots[name] = root
        return roots

    def _find_touched(self) -> tuple[dict[str, int], dict[str, int]]:
        roots = self.roots
        first: dict[str, int] = {}
        last: dict[str, int] = {}
        for k, entry in enumerate(self.entries):
            touched = entry.arrays.values() if isinstance(entry, Call) else entry.touched
            for name in touched:
                root = roots.get(name, name)
                first.setdefault(root, k)
                last[root] = k
        return first, last

    def _verify(self) -> None:
        """Asserts that the plan is valid.

        Each value is written once, before it is read; views have the size of their base, and parts
        of parameters and constants lie within them; no call reads a parameter after its delivery.
        """
        delivered: set[str] = set()
        roots = self.roots
        available = {
            n for n, v in self.values.items() if v.region not in (Region.ARENA, Region.SUM)
        }
        backward = False
        for entry in self.entries:
            if isinstance(entry, Delivery):
                if entry.call:
                    available.update(entry.call.values((*entry.call.writes, *entry.call.workspace)))
                is_ready = all(self.root(name) in available for name in entry.touched)
                assert is_ready, f"the gradient of {entry.parameter} is delivered too early"
                delivered.add(entry.parameter)
                backward = True
                continue
            is_late = backward and entry.phase is Phase.FORWARD
            assert not is_late, f"{entry.label} is forward after the first backward entry"
            backward = backward or entry.phase is Phase.BACKWARD
            arrays = entry.arrays
            for n in entry.reads:
                name = arrays[n]
                root = roots.get(name, name)
                assert root in available, f"{entry.label} reads {name} before it is written"
                assert root not in delivered, f"{entry.label} reads updated {name}"
            for n in (*entry.writes, *entry.workspace):
                name = arrays[n]
                assert name not in available, f"{entry.label} writes {name} again"
                assert name not in roots, f"{entry.label} writes into a view, {name}"
                available.add(name)
        for value in self.values.values():
            if value.base is not None:
                whole = self.values[self.root(value.name)].spec.size
                is_part = value.region in (Region.PARAMETER, Region.CONSTANT)
                end = value.at + value.spec.size
                fits = end <= whole if is_part else end == whole
                assert fits, f"{value.name} does not fit its base"

    def __str__(self) -> str:
        lines = []
        for k, entry in enumerate(self.entries):
            if isinstance(entry, Delivery):
                suffix = "" if self.owns(k) else ", which later calls read"
                suffix += entry.form
                lines.append(f"deliver {entry.gradient} to {entry.parameter}{suffix}")
                continue
            ins = ", ".join(f"{n}={entry.arrays[n]}" for n in entry.reads)
            outs = ", ".join(f"{n}={entry.arrays[n]}" for n in entry.writes)
            lines.append(f"{entry.label}({ins}) → {outs}")
        for value in self.values.values():
            base = f" is {value.base}" if value.base else ""
            lines.append(f"{value.name}: {value.spec} {value.region.value}{base}")
        return "\n".join(lines)
