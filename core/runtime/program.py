"""A program: a plan bound to memory. To run it is a loop over calls that allocates nothing."""

import mmap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property, partial
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from odt.core.planning.computation import Computation, Plans
from odt.core.planning.mapped_weights import mapped_weights, releases
from odt.core.planning.memory import MemoryPlan
from odt.core.planning.packed_weights import packed_spec
from odt.core.planning.plan import Call, Delivery, Plan, Region, Value
from odt.core.runtime.arena import make_arena, view
from odt.core.runtime.fuse_calls import merged, with_addend
from odt.core.storage.mapped_files import mapped_files
from odt.dataclass import dataclass
from odt.kernels.native.binding import (
    FOUND,
    Calls,
    Run,
    joined,
    one_loop,
    with_late_checks,
    without_checks,
)
from odt.kernels.native.regions import Regions
from odt.kernels.native.table import Table
from odt.kernels.rows.opdef import PACKED, PACKS, Array


class Samples(NamedTuple):
    """Arrays to fill with samples: those of a program, or of a whole batch.

    Attributes:
        inputs, targets: arrays of a row for each sample.
        scales: factors of the losses. Losses without weights have one row for all samples.
    """

    inputs: Sequence[Array]
    targets: Sequence[Array]
    scales: Sequence[Array]

    def part(self, at: int, count: int) -> "Samples":
        """Returns the arrays of samples [at, at + count)."""
        here = slice(at, at + count)
        return Samples(*([a if len(a) == 1 else a[here] for a in arrays] for arrays in self))


class SelectedRows(NamedTuple):
    """Gradients of the rows of a table that a micro-batch selects.

    Attributes:
        find: the calls that fill `at`.
        at: number of the row of each gradient.
        gradients: the gradients.
    """

    find: Sequence[Run]
    at: Array
    gradients: Array


# Returns the calls that take a complete gradient: (name of the parameter's value, gradient, whether
# the gradient may be destroyed because nothing reads its memory later, the rows of a table instead
# of the gradient).
Deliver = Callable[[str, Array, bool, SelectedRows | None], Sequence[Run]]


@dataclass(frozen=True, slots=True)
class Outside:
    """Memory outside the arena of a worker.

    Attributes:
        sums: arrays in which gradients are computed, by parameter.
        adds: (1,), read in each run: whether gradients are added to `sums`; None if they never are.
        packed: packed weights, by name.
    """

    sums: Mapping[str, Array] = field(default_factory=dict)
    adds: Array | None = None
    packed: Mapping[str, Array] = field(default_factory=dict)


class Program:
    """A plan bound to an arena and to the arrays outside it.

    Attributes:
        arena: memory of the plan's values.
        runs: the calls of each entry.
        inputs, targets, scales, masks: arrays to fill before a run.
        samples: inputs and targets with a row for each sample, and scales.
        losses: (1,) arrays, valid after `forward`.
        outputs, rows, seen, statistics: arrays valid after `forward`, until `backward`.
    """

    def __init__(
        self,
        plan: Plan,
        memory: MemoryPlan,
        arena: Array,
        tensors: Mapping[int, Array],
        deliver: Deliver | None = None,
        observable: Collection[str] = (),
        bound: Mapping[int, Sequence[Run]] = MappingProxyType({}),
        outside: Outside | None = None,
    ) -> None:
        """Binds a plan.

        Args:
            plan: the plan.
            memory: memory plan of the plan.
            arena: memory.nbytes bytes, aligned.
            tensors: parameters by tensor index; other constants come from the graph.
            deliver: returns the calls that take the gradients; required if the plan has any.
            observable: values that exist after the call that writes them, which is not fused with
                the next.
            bound: calls of entries that are bound to the same memory already, by entry.
            outside: memory outside the arena; None if there is none.
        """
        self.plan = plan
        self._memory = memory
        self.arena = arena
        outside = outside or Outside()
        self._outside = in_sums(plan, outside.sums)
        self._adds = outside.adds
        self._packed = outside.packed
        self._arrays = {
            name: self._bind(value, memory, arena, tensors) for name, value in plan.values.items()
        }
        self.inputs = [self._arrays[n] for n in plan.inputs]
        self.targets = [self._arrays[n] for n in plan.targets]
        self.scales = [self._arrays[n] for n in plan.scales]
        inputs, targets = (
            [a.reshape(plan.graph.samples, -1, copy=False) for a in arrays]
            for arrays in (self.inputs, self.targets)
        )
        self.samples = Samples(inputs, targets, self.scales)
        self.masks = [self._arrays[f"t{mask.tensor}"] for mask in plan.masks]
        self.losses = [self._arrays[n] for n in plan.losses]
        self.outputs = [self._arrays[n] for n in plan.outputs]
        self.rows = [self._arrays[n] for n in plan.rows]
        self.seen = [(i, self._arrays[n]) for i, n in plan.seen]
        self.statistics = [
            (s, self._arrays[s.center], self._arrays[s.inv]) for s in plan.statistics
        ]
        self._fused = merged(plan, self._arrays, observable)
        self._covered = {after for after, _ in self._fused.values()}  # by the call before
        sizes = mapped_weights(plan)
        self._releases = releases(plan, sizes)
        self._files = mapped_files(self._arrays[name] for name in sizes)
        self.runs = [
            () if k in self._covered else bound.get(k) or self._runs_of(k, entry, deliver)
            for k, entry in enumerate(plan.entries)
        ]
        self._forward_runs = list(chain(*self.runs[: plan.forward_entries]))
        self._checks: list[Run] = []
        forward = self._with_releases(0, plan.forward_entries)
        backward = self._with_releases(plan.forward_entries, len(plan.entries))
        self._forward = joined(
            run for each in forward for run in with_late_checks(each, self._checks)
        )
        # What backward reads was checked before.
        self._backward = joined(run for each in backward for run in without_checks(each))

    def _with_releases(self, first: int, end: int) -> Iterator[Run]:
        """Yields the calls of some entries, and those that release pages of weights."""
        for k in range(first, end):
            if k in self._releases:
                for file in self._files:
                    yield partial(file.madvise, mmap.MADV_DONTNEED)
            yield from self.runs[k]

    def __str__(self) -> str:
        """Formats a line per call: compiled or NumPy, the arrays and their offsets in the arena."""
        lines = []
        for k, entry in enumerate(self.plan.entries):
            if isinstance(entry, Delivery):
                gradient = self._place(entry.gradient)
                lines.append(f"deliver {gradient} to {entry.parameter}{entry.form}")
            elif k not in self._covered:
                how = "compiled" if entry.compiled else "NumPy"
                if entry.rounds:
                    how = "compiled, bf16"
                values = dict(entry.arrays)
                if k in self._fused:
                    number, arguments = self._fused[k]
                    after = self.plan.entries[number]
                    assert isinstance(after, Call), "only calls are fused"
                    how += f", with {after.label}"
                    if "addend" in arguments:
                        values |= with_addend(entry, after)
                arrays = ", ".join(f"{n}={self._place(v)}" for n, v in values.items())
                lines.append(f"{entry.label} ({how}): {arrays}")
        return "\n".join(lines)

    def _place(self, name: str) -> str:
        root = self.plan.root(name)
        at = self._memory.offsets.get(root)
        return name if at is None or root in self._outside else f"{name}@{at}"

    def forward(self) -> None:
        """Computes outputs and losses from the inputs."""
        for run in self._forward:
            run()
        self.check()

    def check(self) -> None:
        """Raises DataError for data that `forward`, or its loop, could not use."""
        if self._checks and FOUND[0]:
            for check in self._checks:
                check()

    def backward(self) -> None:
        """Computes and delivers the gradients, after `forward` on the same inputs."""
        for run in self._backward:
            run()

    @cached_property
    def loops(self) -> tuple[Calls, Calls, Calls] | None:
        """`forward`, `backward` and both, each as one loop in C; None if a call is not compiled."""
        both = *self._forward, *self._backward
        if not all(isinstance(run, Calls) for run in both):
            return None
        forward, backward, step = (
            one_loop(run for run in runs if isinstance(run, Calls))
            for runs in (self._forward, self._backward, both)
        )
        return forward, backward, step

    def forward_by_call(self) -> Iterator[tuple[str, ...]]:
        """Runs forward call by call; yields the names of the values that each has written."""
        calls = [k for k in range(self.plan.forward_entries) if k not in self._covered]
        for k, run in zip(calls, self._forward_runs, strict=True):
            run()
            yield self._written(k)

    def _written(self, k: int) -> tuple[str, ...]:
        """Returns the values that the run of entry k writes."""
        after, extra = self._fused.get(k, (k, {}))
        first = after if "addend" in extra else k  # the call's own result does not exist
        calls = (self.plan.entries[n] for n in dict.fromkeys((first, after)))
        return tuple(n for c in calls if isinstance(c, Call) for n in c.values(c.writes))

    def tables(self, regions: Regions, except_for: Collection[str]) -> dict[int, Table]:
        """Returns relocatable tables of the entries that have compiled calls only.

        Args:
            regions: memory of which each worker has its own.
            except_for: parameters whose deliveries differ between workers in more than memory.
        """
        tables = {}
        for k, (entry, runs) in enumerate(zip(self.plan.entries, self.runs, strict=True)):
            loops = [run for run in runs if isinstance(run, Calls)]
            differs = isinstance(entry, Delivery) and entry.parameter in except_for
            if loops and len(loops) == len(runs) and not differs:
                tables[k] = Table(loops, regions)
        return tables

    def array(self, name: str) -> Array:
        """The array to which a value is bound."""
        return self._arrays[name]

    def first_bad(self) -> str | None:
        """Runs forward call by call; returns the name of the first value that is not finite."""
        for name in (*self.plan.inputs, *self.plan.targets):
            if not self._is_finite(name):
                return name
        forward = enumerate(self.plan.entries[: self.plan.forward_entries])
        calls = [(k, entry) for k, entry in forward if k not in self._covered]
        for (k, entry), run in zip(calls, self._forward_runs, strict=True):
            assert isinstance(entry, Call), "gradients are delivered in backward"
            for name in entry.values(entry.reads):
                if self.plan.values[name].region is not Region.ARENA and not self._is_finite(name):
                    return name
            run()
            for name in self._written(k):
                if not self._is_finite(name):
                    return name
        return None

    def _is_finite(self, name: str) -> bool:
        a = self._arrays[name]
        return a.dtype.kind not in "fc" or bool(np.isfinite(a).all())

    def _bind(
        self, value: Value, memory: MemoryPlan, arena: Array, tensors: Mapping[int, Array]
    ) -> Array:
        """Returns the array of a value: a constant, a parameter, a sum, or a part of the arena."""
        root = self.plan.root(value.name)
        if root in self._outside:
            return view(self._outside[root], 0, value.spec)
        if root in memory.offsets:
            return view(arena, memory.offsets[root], value.spec)
        if value.region in (Region.CONSTANT, Region.PARAMETER):
            tensor = self.plan.values[root].tensor
            assert tensor is not None, "constants and parameters are tensors"
            array = tensors.get(tensor)
            if array is None:
                constant = self.plan.graph.tensors[tensor]
                values = constant.data if value.spec.dtype.kind in "iu" else constant.real
                assert values is not None, "a constant has values"
                array = np.ascontiguousarray(values)  # folded ones may be views that repeat rows
            if value.spec.size != array.size:  # a part of the tensor
                array = array.reshape(-1)[value.at : value.at + value.spec.size]
            return array.reshape(value.spec.shape)
        return np.empty(value.spec.shape, value.spec.dtype)  # an input that nothing reads

    def packing(self) -> list[Calls]:
        """Returns the calls that pack weights, which are before the first run of a step."""
        calls, packed = [], set()
        for entry in self.plan.entries[: self.plan.forward_entries]:
            if not isinstance(entry, Call):
                continue
            panel = self._panel(entry)
            if panel is not None and id(panel) not in packed:  # several calls may read it
                packed.add(id(panel))
                arrays = {n: self._arrays[v] for n, v in entry.arrays.items()}
                call = self._bind_call(entry, arrays, {}, packing=PACKS)
                assert isinstance(call, Calls), "weights are packed for compiled calls"
                calls.append(call)
        return calls

    def _panel(self, call: Call) -> Array | None:
        """The packed weights that a call reads; None if it reads others."""
        if not self._packed:
            return None
        name = self.plan.root(call.arrays.get("w", ""))
        panel, spec = self._packed.get(name), packed_spec(self.plan, call)
        if panel is None or spec is None or (spec.shape, spec.dtype) != (panel.shape, panel.dtype):
            return None  # a short batch may need another layout
        return panel

    def _bind_call(
        self, call: Call, arrays: dict[str, Array], extra: Mapping[str, Any], packing: str = PACKED
    ) -> Run:
        """Binds the compiled form of a call.

        Args:
            call: the call.
            arrays: name in the kernel → array.
            extra: further arguments.
            packing: what the call does if it has packed weights.
        """
        compiled = call.compiled
        assert compiled is not None, "callers bind compiled calls only"
        arguments = {**arrays, **compiled.prepare(call.attrs, call.specs), **extra}
        panel = self._panel(call)
        if panel is not None:
            arguments |= {"panel": panel, "packing": packing}
        return compiled.bind(call.attrs, **arguments)

    def _is_outside(self, call: Call) -> bool:
        return any(self.plan.root(name) in self._outside for name in call.values(call.writes))

    def _runs_of(self, k: int, entry: Call | Delivery, deliver: Deliver | None) -> Sequence[Run]:
        """Binds entry k: the calls that take a gradient, or one call with what is fused to it."""
        if isinstance(entry, Delivery):
            assert deliver is not None, "a plan with gradients needs `deliver`"
            gradient = self._arrays[entry.gradient]
            rows = self._rows_of(entry.call) if entry.call and entry.by_rows else None
            return deliver(entry.parameter, gradient, self.plan.owns(k), rows)
        arrays = {n: self._arrays[v] for n, v in entry.arrays.items()}
        if entry.compiled is not None:
            _, extra = self._fused.get(k, (k, {}))
            if self._adds is not None and self._is_outside(entry):
                extra = {**extra, "adds": self._adds}
            return (self._bind_call(entry, arrays, extra),)
        prepared = entry.kernel.prepare(entry.attrs, entry.specs)
        return (partial(entry.kernel.run, entry.attrs, **arrays, **prepared),)

    def _rows_of(self, call: Call) -> SelectedRows:
        """Binds the call that selects the rows of a table's gradient."""
        form = call.kernel.row_sums
        assert form is not None, "the kernel selects rows"
        (written,) = call.writes
        entries = call.specs[written].shape[0]
        arrays = {n: self._arrays[v] for n, v in call.arrays.items() if n != written}
        at, gradients = arrays["at"], arrays.pop("dy")
        find = form.call_find if call.compiled else partial(partial, form.find)
        arguments = (call.compiled or call.kernel).prepare(call.attrs, call.specs)
        run = find(call.attrs, **arrays, **{**arguments, "entries": entries})
        return SelectedRows((run,) if at.size else (), at.reshape(-1, copy=False), gradients)


def bind(
    plans: Plans, computation: Computation, batch: int, arena: Array, tensors: Mapping[int, Array]
) -> Program:
    """Binds the program for a number of samples; it has no gradients.

    Args:
        plans: plans of the model.
        computation: the computation.
        batch: number of samples.
        arena: memory to use; if it is too small, a new arena is allocated.
        tensors: parameters by tensor index.
    """
    plan, memory = plans.verified(computation, batch)
    return Program(plan, memory, large_enough(arena, memory), tensors)


def large_enough(arena: Array, memory: MemoryPlan) -> Array:
    """Returns the part of an arena that a memory plan needs, or a new arena."""
    is_enough = memory.nbytes <= arena.nbytes
    return arena[: memory.nbytes] if is_enough else make_arena(memory.nbytes)


def in_sums(plan: Plan, sums: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the bytes of the values that are gradients computed in `sums`, by name.

    A gradient of two parameters is computed in the sum of the first one.
    """
    arrays: dict[str, Array] = {}
    for entry in plan.entries:
        if isinstance(entry, Delivery) and entry.parameter in sums:
            root, total = plan.root(entry.gradient), sums[entry.parameter]
            value = plan.values[root]
            in_memory = value.region in (Region.ARENA, Region.SUM)
            if in_memory and value.spec.nbytes == total.nbytes:
                arrays.setdefault(root, total.reshape(-1, copy=False).view(np.uint8))
    return arrays
