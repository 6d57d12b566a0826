"""Makes a plan of a lowered graph: forward calls, losses, and one call for each needed gradient.

Unneeded gradients have no call, unread tensors are not computed, and operators before the first
trainable one have no backward. Kernels write and never accumulate: a second contribution to a
gradient is a separate value, and a call of ADD adds it.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from odt.core.data.protocol import Scales
from odt.core.lowering.binding import (
    bind_operands,
    bind_outputs,
    expand,
    gradient_of,
    row_of,
)
from odt.core.lowering.normalize.batch_statistics import (
    RunningStatistics,
    centered_tensors,
    running_statistics,
    with_batch_statistics,
)
from odt.core.lowering.normalize.unread import without_unread
from odt.core.lowering.sample_axis import batched_tensors, nodes_mixing_batch
from odt.core.model.graph import LoweredGraph, Node, ranges
from odt.core.planning.gradient_flow import GradientFlow
from odt.core.planning.output_loss import Loss
from odt.core.planning.plan import Call, Delivery, Phase, Plan, Region, Value
from odt.core.planning.trainable import trainable_tensors
from odt.errors import ShapeError
from odt.kernels.families.copies import ZERO
from odt.kernels.families.output_channels import counted, narrowed, of_channels
from odt.kernels.families.zero_gradient import zero
from odt.kernels.native.library import is_available
from odt.kernels.registry import LOSSES
from odt.kernels.rows.opdef import (
    BIAS_GRADIENT,
    Arithmetic,
    Attrs,
    Compiled,
    Kernel,
    OpDef,
    Specs,
    TensorSpec,
    no_specs,
)

if TYPE_CHECKING:
    from odt.core.lowering.normalize.dropout import Mask


def inference_plan(graph: LoweredGraph) -> Plan:
    """Plans the computation of the model's outputs."""
    return _Builder(graph, frozenset()).finish(graph.outputs, (), nodes_mixing_batch(graph))


def training_plan(
    graph: LoweredGraph,
    losses: Sequence[Loss],
    trainable: frozenset[int],
    *,
    only: Collection[int] | None = None,
    sparse: Sequence[tuple[int, Sequence[int]]] = (),
    dropout: Sequence[tuple[int, float]] = (),
    backward: bool = True,
    outputs: bool = False,
    bf16: bool = False,
) -> Plan:
    """Plans the computation of losses and of the gradient of their sum.

    Args:
        graph: the graph to train.
        losses: losses of the outputs that have one.
        trainable: positions in the file of the operators that train.
        only: weights of these operators that train; None for all.
        sparse: output channels that train, for filters trained in part.
        dropout: weights of fully connected layers, and the probability with which values of the
            layer's input become 0; ignored without backward.
        backward: whether to compute gradients; False plans the losses only.
        outputs: whether to compute the model's outputs too, for a metric.
        bf16: whether the factors of products are rounded to bfloat16.
    """
    graph = with_batch_statistics(graph) if backward else graph
    dropped: LoweredGraph = graph
    masks: tuple[Mask, ...] = ()
    if backward and dropout:
        from odt.core.lowering.normalize.dropout import add_dropout

        dropped, masks = add_dropout(graph, dict(dropout))
    trained = trainable if backward else frozenset()
    builder = _Builder(dropped, trained, only, sparse, masks, bf16=bf16)
    return builder.finish(graph.outputs if outputs else (), losses, nodes_mixing_batch(graph))


class _Builder:
    """Builds one plan, entry by entry.

    Attributes:
        graph: the graph.
        masks: masks of dropout.
        filled: tensors that a run fills before it computes.
        batched: tensors with a part for each sample.
        entries, values: of the plan.
        parameters: tensors that train.
        channels: output channels that train, by tensor of a filter that trains in part.
        gradients: tensor → value of its gradient so far.
        contributions: number of values that are gradients of a tensor.
        aux: (first output of a node, or −1 − k for loss k; name in the row) → auxiliary value.
        arrays: outputs of a node → its values by row name.
        centered: tensors to which a bias may be added without any effect.
        losses, targets, scales: values of each loss.
    """

    def __init__(
        self,
        graph: LoweredGraph,
        trainable: frozenset[int],
        only: Collection[int] | None = None,
        sparse: Sequence[tuple[int, Sequence[int]]] = (),
        masks: "Sequence[Mask]" = (),
        *,
        bf16: bool = False,
    ) -> None:
        self.graph = graph
        self.masks = tuple(masks)
        self.filled = {*graph.inputs, *(mask.tensor for mask in masks)}
        self.batched = batched_tensors(graph, self.filled)
        self.entries: list[Call | Delivery] = []
        self.values: dict[str, Value] = {}
        self.parameters = frozenset(trainable_tensors(graph, trainable, only))
        self.channels = {i: np.array(channels, np.intp) for i, channels in sparse}
        self.gradients: dict[int, str] = {}
        self.contributions: Counter[int] = Counter()
        self.aux: dict[tuple[int, str], str] = {}
        self.arrays: dict[tuple[int, ...], dict[str, str]] = {}
        self.centered: set[int] = set()
        self._has_compiled = is_available()
        self._bf16 = bf16
        self.losses: list[str] = []
        self.targets: list[str] = []
        self.scales: list[str] = []

    def finish(
        self, outputs: Sequence[int], losses: Sequence[Loss], mixing: Sequence[Node]
    ) -> Plan:
        """Returns the plan: forward calls, losses, then gradients in reverse order of the nodes.

        Args:
            outputs: tensors that are computed and kept until the end of the forward phase.
            losses: losses to compute.
            mixing: nodes that mix the samples of a batch.
        """
        inputs = [self.tensor(i) for i in self.graph.inputs]
        for mask in self.masks:
            self.tensor(mask.tensor)
        read = {*outputs, *(loss.tensor for loss in losses)}
        needed = without_unread(self.graph.nodes, read, lambda _: True)
        for node in needed:
            self._forward(node)
        values = [self.tensor(i) for i in outputs]
        rows = [self._loss(k, loss) for k, loss in enumerate(losses)]
        flow = GradientFlow(self.graph, needed, self.parameters)
        self.centered = centered_tensors(self.graph, needed) - {loss.tensor for loss in losses}
        for k, (loss, (row, attrs)) in enumerate(zip(losses, rows, strict=True)):
            if loss.tensor in flow.needs_gradient:
                self._loss_gradient(k, loss, row, attrs)
        reached = flow.with_backward(self.gradients)
        delivered = flow.deliveries(reached)
        for node in reversed(reached):
            self._backward(node, flow.passed(node), delivered[node.outputs])
        return Plan(
            self.graph,
            tuple(self.entries),
            self.values,
            inputs=tuple(inputs),
            targets=tuple(self.targets),
            scales=tuple(self.scales),
            losses=tuple(self.losses),
            outputs=tuple(values),
            mixing=tuple(f"{n.op} (node {n.origin})" for n in mixing),
            masks=self.masks,
            seen=tuple(self._seen(needed, flow.needs_gradient)),
            statistics=tuple(self._statistics(needed)),
        )

    def tensor(self, i: int) -> str:
        """Returns the value of a tensor; adds it to the plan if it is new."""
        name = f"t{i}"
        if name not in self.values:
            if self.graph.tensors[i].data is not None:
                region = Region.PARAMETER if i in self.parameters else Region.CONSTANT
            else:
                region = Region.INPUT if i in self.filled else Region.ARENA
            spec = self.graph.tensors[i].spec
            growth = self._growth(spec, i)
            self.values[name] = Value(name, spec, region, tensor=i, growth=growth)
        return name

    def _seen(self, needed: Sequence[Node], needs_gradient: set[int]) -> Iterator[tuple[int, str]]:
        """Yields the ranges of activations that depend on parameters, as `Plan.seen`."""
        results = {node.outputs for node in needed}
        for i, node in ranges(self.graph):
            if node.outputs in results and needs_gradient.intersection(node.outputs):
                yield i, self.aux[node.outputs[0], "seen"]

    def _statistics(self, needed: Sequence[Node]) -> Iterator[RunningStatistics]:
        """Yields the normalizations with running statistics, also of layers that do not train."""
        for node, tensors in running_statistics(needed):
            values = (self.aux[node.outputs[0], name] for name in ("center", "inv"))
            yield RunningStatistics(*tensors, node.attrs.momentum, node.attrs.epsilon, *values)

    def _is_float(self, i: int) -> bool:
        return self.graph.tensors[i].spec.has_gradient

    def _new(
        self,
        name: str,
        spec: TensorSpec,
        region: Region = Region.ARENA,
        base: str | None = None,
        growth: int = 0,
    ) -> str:
        assert name not in self.values, name
        self.values[name] = Value(name, spec, region, base, growth=growth)
        return name

    def _growth(self, spec: TensorSpec, tensor: int | None = None) -> int:
        """Returns the bytes that each sample adds to values.

        Args:
            spec: spec of the values.
            tensor: tensor of the graph that the values belong to: they grow if it has a part for
                each sample. None for values that always grow.
        """
        if tensor is not None and tensor not in self.batched:
            return 0
        return spec.nbytes // self.graph.samples

    def _specs(self, arrays: Mapping[str, str]) -> dict[str, TensorSpec]:
        """Returns the specs of values, by name in a row."""
        return {name: self.values[value].spec for name, value in arrays.items()}

    def _workspace_of_one(
        self, kernel: Kernel | Compiled, attrs: Attrs, arrays: Mapping[str, str]
    ) -> Specs:
        """Returns the specs of a call's workspace for one sample, as far as they are known."""
        specs = self._specs(arrays)
        for name, value in arrays.items():
            shape, dtype = specs[name].shape, specs[name].dtype
            if self.values[value].growth and shape:
                specs[name] = TensorSpec((shape[0] // self.graph.samples, *shape[1:]), dtype)
        try:
            return kernel.workspace(attrs, specs)
        except ShapeError:  # attributes are for this number of samples
            return {}

    def _call(
        self,
        label: str,
        phase: Phase,
        kernel: Kernel,
        attrs: Attrs,
        arrays: Mapping[str, str],
        specs: Specs,
        row: OpDef | None = None,
    ) -> None:
        """Adds a call, with values for its workspace.

        The gradient by one factor of a product takes as many operations as the product; a
        gradient that reads dy alone takes about one operation per element.

        Args:
            label, phase, kernel, attrs: as in the call.
            arrays: values by name in the row.
            specs: their specs.
            row: row of the operator; None for a call of no operator.
        """
        reads, writes = expand(kernel.reads, arrays), expand(kernel.writes, arrays)
        bound = {n: arrays[n] for n in (*reads, *writes)}
        compiled = kernel.compiled if self._has_compiled else None
        if compiled is not None and self._bf16 and compiled.bf16 is not None:
            compiled = compiled.bf16 if compiled.bf16.fits(attrs, specs) else compiled
        if compiled is not None and not compiled.fits(attrs, specs):
            compiled = None
        scratch = (compiled or kernel).workspace(attrs, specs)
        number = len(self.entries)
        if scratch:
            is_empty = not any(spec.size for spec in scratch.values())
            less = (
                scratch if is_empty else self._workspace_of_one(compiled or kernel, attrs, arrays)
            )
            for name, spec in scratch.items():
                growth = self._growth(spec)
                if name in less:
                    growth = (spec.nbytes - less[name].nbytes) // max(self.graph.samples - 1, 1)
                bound[name] = self._new(f"{number}.{name}", spec, growth=growth)
        names = tuple(reads), tuple(writes), tuple(scratch)
        if row is not None and (phase is Phase.FORWARD or len(reads) > 1):
            flops, arithmetic = row.flops(attrs, specs), row.arithmetic
        else:
            arithmetic = Arithmetic.OTHER
            flops = max(self.values[v].spec.size for v in bound.values())
        if scratch:
            specs = {**specs, **scratch}
        self.entries.append(
            Call(label, phase, kernel, attrs, bound, *names, specs, flops, arithmetic, compiled)
        )

    def _arrays(self, row: OpDef, node: Node) -> dict[str, str]:
        """Returns the values of a node's inputs, outputs and auxiliary arrays by row name."""
        if node.outputs not in self.arrays:
            self.arrays[node.outputs] = self._bind(row, node)
        return dict(self.arrays[node.outputs])

    def _bind(self, row: OpDef, node: Node) -> dict[str, str]:
        arrays = {n: self.tensor(i) for n, i in bind_operands(row, node).items()}
        arrays.update((n, self.tensor(i)) for n, i in bind_outputs(row, node).items())
        if row.aux is no_specs:
            return arrays
        for name, spec in row.aux(node.attrs, self._specs(arrays)).items():
            y = node.outputs[0]
            arrays[name] = self._new(f"t{y}.{name}", spec, growth=self._growth(spec, y))
            self.aux[y, name] = arrays[name]
        return arrays

    def _forward(self, node: Node) -> None:
        """Adds the call of a node, or makes its outputs views of its input."""
        row = row_of(node.op)
        bound = bind_operands(row, node)
        specs = {n: self.graph.tensors[i].spec for n, i in bound.items()}
        if row.forward.view(node.attrs, specs):
            (y,) = node.outputs
            base = self.tensor(bound[row.forward.reads[0]])
            spec = self.graph.tensors[y].spec
            region = self.values[base].region
            at = self.values[base].at
            growth = self._growth(spec, y)
            self.values[f"t{y}"] = Value(f"t{y}", spec, region, base, y, at, growth)
            return
        if row.forward.cuts(node.attrs, specs) and self._cut(node, bound[row.forward.reads[0]]):
            return
        label, arrays = f"{node.origin} {node.op}", self._arrays(row, node)
        specs = self._specs(arrays)
        self._call(label, Phase.FORWARD, row.forward, node.attrs, arrays, specs, row)

    def _cut(self, node: Node, x: int) -> bool:
        """Makes the parts of a parameter or constant views of it; returns whether it does."""
        base = self.values[self.tensor(x)]
        if base.region not in (Region.PARAMETER, Region.CONSTANT) or not self._is_float(x):
            return False
        at = base.at
        for y in node.outputs:
            spec = self.graph.tensors[y].spec
            self.values[f"t{y}"] = Value(f"t{y}", spec, base.region, base.name, y, at)
            at += spec.size
        return True

    def _loss(self, k: int, loss: Loss) -> tuple[OpDef, Attrs]:
        """Adds the call of loss k, and the values that it reads; returns its row and attributes."""
        row = LOSSES[loss.name].op
        x = self.graph.tensors[loss.tensor].spec
        attrs = row.attrs(loss.options, {})
        arrays = self._loss_arrays(k, loss)
        target = LOSSES[loss.name].target(x)
        self._new(arrays["t"], target, Region.INPUT, growth=self._growth(target))
        scale = TensorSpec(loss.scale_shape(x), x.dtype)
        growth = 0 if loss.scales is Scales.BATCH else self._growth(scale)
        self._new(arrays["scale"], scale, Region.INPUT, growth=growth)
        specs = {n: self.values[arrays[n]].spec for n in ("x", "t", "scale")}
        self._new(arrays["loss"], row.infer(attrs, specs)["loss"])
        specs["loss"] = self.values[arrays["loss"]].spec
        for name, spec in row.aux(attrs, specs).items():
            value = self._new(f"loss{k}.{name}", spec, growth=self._growth(spec))
            self.aux[(-1 - k, name)] = arrays[name] = value
        label, specs = f"loss {k} {loss.name}", self._specs(arrays)
        self._call(label, Phase.FORWARD, row.forward, attrs, arrays, specs)
        self.losses.append(arrays["loss"])
        self.targets.append(arrays["t"])
        self.scales.append(arrays["scale"])
        return row, attrs

    def _loss_arrays(self, k: int, loss: Loss) -> dict[str, str]:
        """Returns the values of loss k by row name."""
        names = {"t": f"target{k}", "scale": f"scale{k}", "loss": f"loss{k}"}
        names.update((n, v) for (i, n), v in self.aux.items() if i == -1 - k)
        return {"x": self.tensor(loss.tensor), **names}

    def _loss_gradient(self, k: int, loss: Loss, row: OpDef, attrs: Attrs) -> None:
        """Adds the gradient of loss k by its output."""
        kernel = row.grads["x"]
        assert isinstance(kernel, Kernel), "a loss has a kernel for the gradient of x"
        label = f"loss {k} {loss.name} d.x"
        arrays = self._loss_arrays(k, loss)
        specs = self._specs(arrays)
        self._contribute(loss.tensor, label, kernel, attrs, arrays, specs, "x")

    def _backward(self, node: Node, inputs: Mapping[str, int], delivered: Sequence[int]) -> None:
        """Adds the gradients of a node's inputs; those of activations come last.

        The gradient of an activation is then next to the call of the preceding node that reads it,
        and both may become one call. Deliveries follow all gradients: no later call reads the
        parameter.
        """
        row = row_of(node.op)
        arrays = self._arrays(row, node)
        for name, i in bind_outputs(row, node).items():
            if i not in self.gradients and self._is_float(i):
                self._zero_gradient(i)
            if i in self.gradients:
                arrays[f"d{name}"] = self.gradients[i]
        if row.backward is not None:
            self._shared(node, row, row.backward, arrays)
        specs = self._specs(arrays)
        for name, i in sorted(inputs.items(), key=lambda item: item[1] not in self.parameters):
            kernel = gradient_of(row, name)
            assert kernel is not None, "inputs that need a gradient have one"
            if kernel.epilogue is BIAS_GRADIENT and node.outputs[0] in self.centered:
                kernel = zero(name)
            label = f"{node.origin} {node.op} d.{name}"
            self._contribute(i, label, kernel, node.attrs, arrays, specs, name, row)
        for i in delivered:
            if i in self.gradients:  # not if only operands without a gradient read it
                self.entries.append(Delivery(f"t{i}", self.gradients[i]))

    def _shared(self, node: Node, row: OpDef, kernel: Kernel, arrays: dict[str, str]) -> None:
        """Adds the call that computes values which several gradients of a node read."""
        for name, spec in row.shared(node.attrs, self._specs(arrays)).items():
            y = node.outputs[0]
            arrays[name] = self._new(f"t{y}.{name}", spec, growth=self._growth(spec, y))
        label = f"{node.origin} {node.op} backward"
        self._call(label, Phase.BACKWARD, kernel, node.attrs, arrays, self._specs(arrays), row)

    def _zero_gradient(self, i: int) -> None:
        """Adds a zero gradient for an unused output of a node whose other outputs are used."""
        spec = self.graph.tensors[i].spec
        self.gradients[i] = self._new(f"d.t{i}", spec, growth=self._growth(spec, i))
        self.contributions[i] += 1
        self._call(f"zero d.t{i}", Phase.BACKWARD, ZERO, None, {"y": f"d.t{i}"}, {"y": spec})

    def _contribute(
        self,
        i: int,
        label: str,
        kernel: Kernel,
        attrs: Attrs,
        arrays: Mapping[str, str],
        specs: Specs,
        name: str,
        row: OpDef | None = None,
    ) -> None:
        """Adds the call for a contribution to a gradient, and its sum with earlier ones.

        Args:
            i: tensor of the gradient.
            label, kernel, attrs: as in the call.
            arrays: values by name in the row.
            specs: their specs.
            name: name of the tensor in the row.
            row: row of the operator; None for a loss.
        """
        spec = self.graph.tensors[i].spec
        if i in self.channels:
            spec = narrowed("w", spec, len(self.channels[i]))
            kernel = of_channels(kernel, self.channels[i])
            row = row and counted(row, spec.shape[0])
        before, growth = self.gradients.get(i), self._growth(spec, i)
        count = self.contributions[i]
        contribution = f"d.t{i}#{count}" if count else f"d.t{i}"
        if kernel.view(attrs, specs):
            self._new(contribution, spec, base=arrays[kernel.reads[0]], growth=growth)
        else:
            self._new(contribution, spec, growth=growth)
            written, specs = {f"d{name}": contribution}, {**specs, f"d{name}": spec}
            self._call(label, Phase.BACKWARD, kernel, attrs, {**arrays, **written}, specs, row)
        self.contributions[i] += 1
        if before is None:
            self.gradients[i] = contribution
            return
        total = self._new(f"d.t{i}#{count + 1}", spec, growth=growth)
        arrays = {"a": before, "b": contribution, "y": total}
        add, specs = row_of("ADD").forward, dict.fromkeys(arrays, spec)
        self._call(f"{label} +", Phase.BACKWARD, add, None, arrays, specs)
        self.contributions[i] += 1
        self.gradients[i] = total
