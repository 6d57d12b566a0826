"""A plan: what a micro-batch computes, in order, and nothing of where.

Calls name their arrays; values say what those arrays are. Where each value lives is its region,
decided here once; its place in the arena is the memory plan's.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from odt.core.model.graph import LoweredGraph
from odt.kernels.opdef import Attrs, Compiled, Kernel, TensorSpec


class Region(Enum):
    """Who fills a value, and how long it lives."""

    CONSTANT = "constant"  # the file, a read-only view; the program's life
    PARAMETER = "parameter"  # copied from the file, changed by updates; the program's life
    INPUT = "input"  # the trainer, before each run; until its last reader
    ARENA = "arena"  # calls: from the first to the last that touches it


class Phase(Enum):
    FORWARD = "forward"
    BACKWARD = "backward"


@dataclass(frozen=True, slots=True)
class Value:
    """What a call computes with.

    Attributes:
        name: t7 is tensor 7, d.t7 its gradient; others begin with what made them.
        spec: shape and dtype.
        region: where it lives.
        base: the value this one is another shape of; they share their memory.
        tensor: index in the graph, where the value is one of its tensors.
    """

    name: str
    spec: TensorSpec
    region: Region
    base: str | None = None
    tensor: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A kernel and the values it is bound to.

    Attributes:
        label: the node's place in the file, operator, and what is computed.
        arrays: the kernel's names → values.
        reads, writes, workspace: those names by what the kernel does with them.
        specs: of all names of the operator, also of those this kernel does not touch.
        flops: about how much arithmetic it is.
        compiled: the kernel's compiled form, where it is used.
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
    compiled: Compiled | None = None

    def values(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(self.arrays[n] for n in names)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A parameter's gradient is whole, and no later call reads the parameter.

    The program adds it up over the micro-batches, or updates the parameter at once.
    """

    parameter: str
    gradient: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Calls and deliveries in order, and the values they touch.

    Attributes:
        graph: the lowered graph it was made from.
        entries: calls; a delivery stands where its gradient is taken.
        values: by name.
        inputs: values the trainer fills: one for each model input.
        targets: likewise, one for each output that has a loss.
        scales: likewise, a (1,) array for each loss: what the loss's sum over samples is
            multiplied by.
        losses: (1,) values.
        outputs: the model's outputs, as far as they were asked for; they live until the end of
            the forward phase.
        mixing: nodes that make the samples of a batch depend on each other.
        owners: for each gradient that is delivered, by the value whose memory it is, the last
            step that touches that memory. A delivery may destroy the gradient only if it is that
            step: views of it may be the gradients of other tensors.
    """

    graph: LoweredGraph
    entries: tuple[Call | Delivery, ...]
    values: Mapping[str, Value]
    inputs: tuple[str, ...]
    targets: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    mixing: tuple[str, ...] = field(default=())
    owners: Mapping[str, int] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "owners", self._last_touched())
        self._verify()

    @property
    def parameters(self) -> tuple[str, ...]:
        """Parameters that are trained, in the order of their deliveries."""
        return tuple(s.parameter for s in self.entries if isinstance(s, Delivery))

    @property
    def gradient_nbytes(self) -> dict[str, int]:
        """Bytes of the gradient of each of these: of what trains of it, where that is a part."""
        found = [s for s in self.entries if isinstance(s, Delivery)]
        return {s.parameter: self.values[s.gradient].spec.nbytes for s in found}

    @property
    def forward_entries(self) -> int:
        """How many steps the forward phase has; they come first."""
        return sum(isinstance(s, Call) and s.phase is Phase.FORWARD for s in self.entries)

    def root(self, name: str) -> str:
        """The value whose memory this one is."""
        base = self.values[name].base
        return name if base is None else self.root(base)

    def owns(self, k: int) -> bool:
        """Whether step k, a delivery, is the last to touch its gradient's memory."""
        entry = self.entries[k]
        return isinstance(entry, Delivery) and self.owners[self.root(entry.gradient)] == k

    def _last_touched(self) -> dict[str, int]:
        found = {self.root(s.gradient): -1 for s in self.entries if isinstance(s, Delivery)}
        for k, entry in enumerate(self.entries):
            names = entry.arrays.values() if isinstance(entry, Call) else (entry.gradient,)
            for root in map(self.root, names):
                if root in found:
                    found[root] = k
        return found

    def _verify(self) -> None:
        """Each value is made once, before it is read; views keep their base's size.

        No call reads a parameter that may have been updated.
        """
        delivered: set[str] = set()
        made = {n for n, v in self.values.items() if v.region is not Region.ARENA}
        backward = False
        for entry in self.entries:
            if isinstance(entry, Delivery):
                assert self._made(entry.gradient, made), entry
                delivered.add(entry.parameter)
                backward = True
                continue
            assert not (backward and entry.phase is Phase.FORWARD), entry.label
            backward = backward or entry.phase is Phase.BACKWARD
            for name in entry.values(entry.reads):
                assert self._made(name, made), f"{entry.label} reads {name} before it is made"
                assert self.root(name) not in delivered, f"{entry.label} reads {name}, updated"
            for name in entry.values((*entry.writes, *entry.workspace)):
                assert name not in made, f"{entry.label} makes {name} again"
                assert self.values[name].base is None, f"{entry.label} writes into a view, {name}"
                made.add(name)
        for value in self.values.values():
            if value.base is not None:
                assert value.spec.nbytes == self.values[value.base].spec.nbytes, value.name

    def _made(self, name: str, made: set[str]) -> bool:
        return self.root(name) in made

    def __str__(self) -> str:
        lines = []
        for k, entry in enumerate(self.entries):
            if isinstance(entry, Delivery):
                kept = "" if self.owns(k) else ", which later steps read"
                lines.append(f"deliver {entry.gradient} to {entry.parameter}{kept}")
                continue
            ins = ", ".join(f"{n}={entry.arrays[n]}" for n in entry.reads)
            outs = ", ".join(f"{n}={entry.arrays[n]}" for n in entry.writes)
            lines.append(f"{entry.label}({ins}) → {outs}")
        for value in self.values.values():
            of = f" is {value.base}" if value.base else ""
            lines.append(f"{value.name}: {value.spec} {value.region.value}{of}")
        return "\n".join(lines)
