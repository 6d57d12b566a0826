"""Joins a last dense layer with the cross-entropy of its logits, in chunks of rows.

The logits of a language model are larger than all its other activations: 49,152 words for each of
1,024 positions are 201 MB, and their probabilities as many. Joined, layer and loss are one call of
the forward phase, which also computes their gradients, because the scale of the loss is known. It
holds the logits of a chunk alone. Small networks keep separate calls.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np

from odt.core.planning import output_loss
from odt.core.planning.plan import Call, Phase, Plan, Region, Value
from odt.dataclass import dataclass
from odt.kernels.chunked_loss import kernel
from odt.kernels.geometry.softmax_geometry import ChunkedAttrs
from odt.kernels.native.library import compiled_of
from odt.kernels.ops.fully_connected import OP as DENSE
from odt.kernels.registry import LOSSES
from odt.kernels.rows.opdef import Arithmetic, TensorSpec

CHUNK = 2**23  # bytes of the logits of a chunk
LEAST_ROWS = 128  # of a chunk: with 64 instead, packing the weights takes 10 % more time
LOSS = LOSSES["sparse_categorical_crossentropy"].op
ROWS = "terms", "best"  # results that metrics read


def with_chunked_loss(plan: Plan, *, rows: bool = False) -> Plan:
    """Returns the plan with layers and losses joined where this saves memory; or the plan itself.

    Args:
        plan: the plan.
        rows: whether to compute what metrics read of the rows of the first loss.
    """
    for k, name in enumerate(plan.losses):
        layer = _find(plan, name)
        if layer is not None and layer.saved >= output_loss.LEAST_SAVED:
            plan = layer.joined(rows=rows and k == 0)
    return plan


@dataclass(frozen=True, slots=True)
class _Layer:
    """A dense layer, the loss that alone reads its logits, and their gradients.

    Attributes:
        plan: the plan.
        dense, loss: the calls of the forward phase.
        loss_gradient: computes the gradient of the logits; None without backward.
        gradients: calls that read it, by what they compute: dx, dw or db.
    """

    plan: Plan
    dense: Call
    loss: Call
    loss_gradient: Call | None
    gradients: dict[str, Call]

    @property
    def logits(self) -> TensorSpec:
        return self.dense.specs["y"]

    @property
    def chunk(self) -> int:
        """Rows of a chunk."""
        units = self.logits.shape[-1]
        return max(CHUNK // (units * self.logits.dtype.itemsize), LEAST_ROWS)

    @property
    def saved(self) -> int:
        """Bytes that the plan saves: logits and probabilities, but for those of a chunk.

        The gradient of the weights needs memory until it is used; otherwise it often needs none.
        """
        units, depth = self.dense.specs["w"].shape
        values = 2 * self.logits.size - min(self.chunk * units, self.logits.size)
        if "dw" in self.gradients:
            values -= units * depth
        return values * self.logits.dtype.itemsize

    def joined(self, *, rows: bool) -> Plan:
        """Returns the plan with one call of layer and loss; `rows` as of `with_chunked_loss`."""
        plan = self.plan
        samples = plan.graph.samples
        of_rows = {}
        if rows:
            prefix, shape = self.loss.arrays["loss"], (self.loss.specs["t"].size,)
            specs = TensorSpec(shape, self.logits.dtype), TensorSpec(shape, np.dtype(np.int32))
            for name, spec in zip(ROWS, specs, strict=True):
                growth = spec.nbytes // samples
                of_rows[name] = Value(f"{prefix}.{name}", spec, Region.ARENA, growth=growth)
        call = self._call(of_rows)
        removed = [self.dense, *self.gradients.values()]
        if self.loss_gradient is not None:
            removed.append(self.loss_gradient)
        ids = {id(entry) for entry in removed}
        entries = [
            call if entry is self.loss else entry for entry in plan.entries if id(entry) not in ids
        ]
        dropped = set(self.loss.values(self.loss.workspace))
        for entry in removed:
            dropped.update(entry.values(entry.workspace))
        dropped |= {plan.root(name) for name in self._held()}
        values = {n: v for n, v in plan.values.items() if plan.root(n) not in dropped}
        values.update((value.name, value) for value in of_rows.values())
        for name in call.workspace:
            growth = call.specs[name].nbytes // samples if name == "by_row" else 0
            value = Value(call.arrays[name], call.specs[name], Region.ARENA, growth=growth)
            values[value.name] = value
        names = tuple(value.name for value in of_rows.values())
        return replace(plan, entries=tuple(entries), values=values, rows=names or plan.rows)

    def _held(self) -> Iterator[str]:
        """Yields the values that the plan no longer has: logits, probabilities and gradient."""
        yield self.dense.arrays["y"]
        if "p" in self.loss.arrays:
            yield self.loss.arrays["p"]
        if self.loss_gradient is not None:
            yield self.loss_gradient.arrays["dx"]

    def _call(self, of_rows: Mapping[str, Value]) -> Call:
        """Returns the call of layer and loss, with further results that are values for each row."""
        dense, loss = self.dense, self.loss
        reads = (*dense.reads, "t", "scale")
        arrays = {name: dense.arrays[name] for name in dense.reads}
        arrays |= {name: loss.arrays[name] for name in ("t", "scale", "loss")}
        arrays |= {name: call.arrays[name] for name, call in self.gradients.items()}
        arrays |= {name: value.name for name, value in of_rows.items()}
        writes = ("loss", *self.gradients, *of_rows)
        attrs = ChunkedAttrs(loss.attrs, self.chunk, dense.specs["w"].shape)
        known = {value.name: value for value in of_rows.values()} | dict(self.plan.values)
        specs = {name: known[value].spec for name, value in arrays.items()}
        run = kernel(reads, writes)
        compiled = compiled_of(run, attrs, specs)
        scratch = (compiled or run).workspace(attrs, specs)
        arrays |= {name: f"{loss.arrays['loss']}.{name}" for name in scratch}
        return Call(
            f"{dense.label} with {loss.label}",
            Phase.FORWARD,
            run,
            attrs,
            arrays,
            reads,
            writes,
            tuple(scratch),
            {**specs, **scratch},
            dense.flops + sum(call.flops for call in self.gradients.values()),
            Arithmetic.DENSE,
            compiled,
        )


def _find(plan: Plan, loss: str) -> _Layer | None:
    """Finds the dense layer whose logits only a loss reads; None if there is none.

    Args:
        plan: the plan.
        loss: value of the loss.
    """
    calls = [entry for entry in plan.entries if isinstance(entry, Call)]
    (reader,) = (call for call in calls if loss in call.values(call.writes))
    if reader.kernel is not LOSS.forward or not reader.attrs.from_logits:
        return None
    logits = plan.root(reader.arrays["x"])
    dense, *others = _touching(plan, calls, {logits})
    if dense.kernel is not DENSE.forward or dense.arrays["y"] != logits:
        return None
    held = {logits, reader.arrays["p"]}
    loss_gradient = next((call for call in others if call.kernel is LOSS.grads["x"]), None)
    gradients: dict[str, Call] = {}
    if loss_gradient is not None:
        held.add(plan.root(loss_gradient.arrays["dx"]))
        for call in _touching(plan, calls, held):
            names = (n for n, k in DENSE.grads.items() if k is call.kernel)
            gradients.update((f"d{name}", call) for name in names)
    known = (dense, reader, loss_gradient, *gradients.values())
    others_touch = any(call not in known for call in _touching(plan, calls, held))
    kept = {plan.root(name) for name in (*plan.read_after_forward, *plan.gradients.values())}
    if others_touch or held & kept:
        return None
    return _Layer(plan, dense, reader, loss_gradient, gradients)


def _touching(plan: Plan, calls: Collection[Call], roots: Collection[str]) -> list[Call]:
    """Returns the calls that touch some values or views of them."""
    return [call for call in calls if any(plan.root(name) in roots for name in call.touched)]
