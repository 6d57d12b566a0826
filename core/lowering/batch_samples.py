"""Batches a graph that was written for one sample (JAX: vmap).

Files converted for one sample may write the batch size 1 into any shape: a RESHAPE turns an RNN's
(1, T, C) into (T, 1, C), and then no shape shows which axis is the batch. This pass does not need
to know: it concatenates samples along axis 0. A tensor (D, …) of one sample becomes (N·D, …), and
any RESHAPE keeps samples contiguous. An operator that computes each entry of axis 0 independently
runs on that tensor unchanged; for any other operator the samples are stacked along a new axis, (N,
D, …). An input may be (D, …), too, such as a vector that FULLY_CONNECTED makes a row of.
"""

from collections.abc import Mapping

import numpy as np

from odt.core.lowering.binding import bind_operands, bind_outputs, row_of
from odt.core.lowering.graph_builder import GraphBuilder, node_of
from odt.core.model.graph import LoweredGraph, Node
from odt.dataclass import replace
from odt.errors import ShapeError, UnsupportedError
from odt.kernels.rows.opdef import Attrs, OpDef, TensorSpec, always

# Number of samples with which shapes are tested: a prime that no shape contains, so that no shape
# fits by accident. The result must not depend on it.
MANY = 7919

Specs = Mapping[str, TensorSpec]


def batch_samples(one: LoweredGraph, times: int) -> LoweredGraph:
    """Returns the graph for several samples.

    Args:
        one: the graph for one sample, or for a group of samples treated as one.
        times: number of samples, or of groups.

    Raises:
        UnsupportedError: if an operator has no form for several samples, an output has another
            leading axis than the batch, or is the same for all samples; the message names it.
    """
    for i in one.outputs:
        lead = one.tensors[i].spec.shape[:1]
        if lead != (one.samples,):
            raise UnsupportedError(
                f"{one.name}: {one.label(i)}: its leading axis must be the batch to compute "
                f"several samples together, but got {one.tensors[i].spec.shape} for {one.samples}"
            )
    builder = _BatchBuilder(one, times)
    for node in one.nodes:
        try:
            builder.add(node)
        except ShapeError as e:
            raise UnsupportedError(
                f"{one.name}: node {node.origin} ({node.op}): must have a form for several "
                f"samples to compute them together, but got: {e}"
            ) from e
    fixed = [one.label(i) for i in one.outputs if i not in builder.batched]
    if fixed:
        raise UnsupportedError(
            f"{one.name}: an output must depend on an input, but got {', '.join(fixed)}"
        )
    return replace(builder.graph(), samples=one.samples * times)


class _BatchBuilder(GraphBuilder):
    """Builds the graph for several samples, node by node.

    Attributes:
        batched: tensors with a batch axis: they hold one value for each sample.
        views: batched tensors with the samples stacked along a new axis, by tensor and rank.
    """

    def __init__(self, one: LoweredGraph, samples: int) -> None:
        super().__init__(one)
        self.one, self.samples = one, samples
        self.batched: set[int] = set()
        self.views: dict[tuple[int, int], int] = {}
        for i in one.inputs:
            self._batch(i)

    def add(self, node: Node) -> None:
        """Adds the batched form of a node.

        Raises:
            ShapeError: if the node has no form for several samples.
        """
        row = row_of(node.op)
        if not self.batched.intersection(node.inputs):
            self.nodes.append(node)
        elif row.forward.view is always:
            (y,) = node.outputs
            self._batch(y)
            self.view(node.inputs[0], y, node.origin)
        elif self._takes_rows(row, node):
            for i in node.outputs:
                self._batch(i)
            attrs = self._attrs(row, node, self.samples)
            self.nodes.append(node if attrs is node.attrs else replace(node, attrs=attrs))
        elif not self._add_samples_first(row, node):
            self._add_with_axis(row, node)

    def _batch(self, i: int) -> None:
        self.batched.add(i)
        self.tensors[i] = replace(
            self.tensors[i], spec=concatenated_spec(self.one.tensors[i].spec, self.samples)
        )

    def _specs(self, row: OpDef, node: Node) -> Specs:
        """Specs of the operands for one sample."""
        return {n: self.one.tensors[i].spec for n, i in bind_operands(row, node).items()}

    def _batched_names(self, row: OpDef, node: Node) -> frozenset[str]:
        return frozenset(n for n, i in bind_operands(row, node).items() if i in self.batched)

    def _attrs(self, row: OpDef, node: Node, samples: int) -> Attrs:
        if row.scale_batch is None:
            return node.attrs
        return row.scale_batch(node.attrs, self._specs(row, node), samples)

    def _takes_rows(self, row: OpDef, node: Node) -> bool:
        """Whether each entry of axis 0 of the outputs depends on only one entry of the inputs."""
        operands, tensors = bind_operands(row, node), self.one.tensors
        batched_names = frozenset([n for n, i in operands.items() if i in self.batched])
        specs = {n: tensors[i].spec for n, i in operands.items()}
        output_specs = {n: tensors[i].spec for n, i in bind_outputs(row, node).items()}
        leads = {lead(specs[n]) for n in batched_names}
        leads.update([lead(spec) for spec in output_specs.values()])
        if len(leads) > 1:
            return False
        specs = {
            n: concatenated_spec(spec, MANY) if n in batched_names else spec
            for n, spec in specs.items()
        }
        attrs = self._attrs(row, node, MANY)
        try:
            outputs = row.infer(attrs, specs)
        except ShapeError:
            return False
        many_specs = {n: concatenated_spec(spec, MANY) for n, spec in output_specs.items()}
        return all(outputs[n] == many_specs[n] for n in many_specs) and not row.mixes_samples(
            attrs, specs, batched_names
        )

    def _add_samples_first(self, row: OpDef, node: Node) -> bool:
        """Adds a time-major operator, (T, 1, …), in its batch-major form (N, T, …)."""
        attrs = row.batch_first(node.attrs)
        if attrs is None or self._batched_names(row, node) != {"x"} or len(node.outputs) > 1:
            return False
        x, (y,) = bind_operands(row, node)["x"], node.outputs
        if self.one.tensors[x].spec.shape[1] != 1:
            return False
        self._batch(y)
        tensors = [self._several(i, self._exchanged(i)) for i in (x, y)]
        self.view(x, tensors[0], node.origin)
        inputs = tuple(tensors[0] if i == x else i for i in node.inputs)
        self.nodes.append(replace(node, inputs=inputs, outputs=(tensors[1],), attrs=attrs))
        self.view(tensors[1], y, node.origin)
        return True

    def _exchanged(self, i: int) -> tuple[int, ...]:
        """Returns the shape (N, T, …) of a tensor whose shape is (T, 1, …) for one sample."""
        time, _, *rest = self.one.tensors[i].spec.shape
        return (self.samples, time, *rest)

    def _add_with_axis(self, row: OpDef, node: Node) -> None:
        """Adds a node with samples stacked along a new axis; batched operands get the same rank."""
        if row.add_batch_axis is None:
            raise ShapeError("it has no form with a separate axis for samples")
        rank, repeated, layout = self._layout(row, node, row.add_batch_axis(node.attrs, MANY))
        with_axis = {i: self._with_axis(node, i, rank) for i in node.inputs if i in self.batched}
        if repeated:  # the operator needs the batch axis in every operand
            fixed = dict.fromkeys(bind_operands(row, node).values())
            with_axis |= {i: self._repeated(node, i) for i in fixed if i not in self.batched}
        places: dict[int, int] = {}
        for name, i in bind_outputs(row, node).items():
            spec = self.one.tensors[i].spec
            self._batch(i)
            if layout[name] != concatenated_spec(spec, MANY):
                places[i] = self._several(i, stacked_spec(spec, self.samples).shape)
        inputs = tuple(with_axis.get(i, i) for i in node.inputs)
        outs = tuple(places.get(i, i) for i in node.outputs)
        attrs = row.add_batch_axis(node.attrs, self.samples)
        self.nodes.append(replace(node, inputs=inputs, outputs=outs, attrs=attrs))
        for i, k in places.items():
            self.view(k, i, node.origin)

    def _layout(self, row: OpDef, node: Node, attrs: Attrs) -> tuple[int, bool, Specs]:
        """Finds a layout of the operands that the operator accepts.

        Returns:
            The rank of batched operands, whether the other operands are repeated for each sample,
            and the specs of the outputs for MANY samples.

        Raises:
            ShapeError: if the operator accepts no layout.
        """
        batched_names, one = self._batched_names(row, node), self._specs(row, node)
        output_specs = {n: self.one.tensors[i].spec for n, i in bind_outputs(row, node).items()}
        rank = max(len(spec.shape) for spec in one.values())
        wide = max(rank, *(len(spec.shape) for spec in output_specs.values()))
        # Layouts by cost: the rank of the operands, that of the outputs, and repeated operands.
        for most, repeated in ((rank, False), (wide, False), (rank, True)):
            specs = {
                n: stacked_spec(s, MANY, most) if n in batched_names else s for n, s in one.items()
            }
            if repeated:
                specs |= {
                    n: stacked_spec(s, MANY) for n, s in one.items() if n not in batched_names
                }
            try:
                outputs = row.infer(attrs, specs)
            except ShapeError:
                continue
            fits = all(
                outputs[n] in (stacked_spec(s, MANY), concatenated_spec(s, MANY))
                for n, s in output_specs.items()
            )
            if fits and not row.mixes_samples(
                attrs, specs, frozenset(one) if repeated else batched_names
            ):
                return most, repeated, outputs
        raise ShapeError(
            f"it does not accept several samples of {', '.join(map(str, one.values()))}"
        )

    def _with_axis(self, node: Node, i: int, rank: int) -> int:
        shape = stacked_spec(self.one.tensors[i].spec, self.samples, rank).shape
        if shape == self.tensors[i].spec.shape:
            return i
        if (i, rank) not in self.views:
            self.views[i, rank] = self._several(i, shape)
            self.view(i, self.views[i, rank], node.origin)
        return self.views[i, rank]

    def _repeated(self, node: Node, i: int) -> int:
        shape = stacked_spec(self.one.tensors[i].spec, self.samples).shape
        target = np.array(shape, np.int32)
        inputs = i, self.constant(target)
        y = self._several(i, shape)
        self.nodes.append(node_of("BROADCAST_TO", inputs, (y,), node.origin, {"shape": target}))
        return y

    def _several(self, i: int, shape: tuple[int, ...]) -> int:
        """Adds a tensor like `i` with the samples stacked along a new axis."""
        return self.tensor(f"{self.one.tensors[i].name}/samples", shape, self.tensors[i].spec)


def lead(spec: TensorSpec) -> int:
    """Returns the length of axis 0; 1 for a scalar."""
    return spec.shape[0] if spec.shape else 1


def concatenated_spec(spec: TensorSpec, samples: int) -> TensorSpec:
    """Returns the spec of several samples concatenated along axis 0."""
    return TensorSpec((lead(spec) * samples, *spec.shape[1:]), spec.dtype)


def stacked_spec(spec: TensorSpec, samples: int, rank: int = 0) -> TensorSpec:
    """Returns the spec of several samples stacked along a new axis before at least `rank` axes."""
    ones = (1,) * (rank - len(spec.shape))
    return TensorSpec((samples, *ones, *spec.shape), spec.dtype)
