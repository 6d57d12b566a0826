"""A graph that holds for one sample → the same for several.

Files converted for one sample may write its 1 into any shape: an RNN's (1, T, C) becomes (T, 1, C)
by a RESHAPE, and then nothing says which axis is the batch. It need not be known. Samples lie one
after the other in memory: a tensor (D, …) of one sample becomes (N·D, …), and a RESHAPE keeps them
whole whatever it makes of them. An operator that takes each entry of axis 0 for itself computes on
that as it is; for any other the samples get an axis of their own, (N, D, …).
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from odt.core.draft import Draft
from odt.core.graph import Graph, Node
from odt.core.names import bind_operands, bind_outputs, row_of
from odt.errors import ShapeError
from odt.kernels.opdef import Attrs, OpDef, TensorSpec, always

# For so many samples an operator is asked whether it takes them as they are: a number that no
# shape has, so that none fits by accident. The answer must not depend on how many there are.
MANY = 7919

Specs = Mapping[str, TensorSpec]


def stacked(one: Graph, samples: int) -> Graph | None:
    """The graph for several samples; None where an operator has no form for them.

    Args:
        one: lowered, for one sample.
        samples: how many.
    """
    if any(one.tensors[i].spec.shape[:1] != (1,) for i in (*one.inputs, *one.outputs)):
        return None
    stack = _Stack(one, samples)
    try:
        for node in one.nodes:
            stack.add(node)
    except ShapeError:
        return None
    if not stack.grown.issuperset(one.outputs):
        return None
    return replace(stack.graph(), samples=samples)


class _Stack(Draft):
    """What there is of it so far.

    Attributes:
        grown: tensors of which there is one for each sample.
        apart: views of them with an axis for the samples, by tensor and rank.
    """

    def __init__(self, one: Graph, samples: int) -> None:
        super().__init__(one)
        self.one, self.samples = one, samples
        self.grown: set[int] = set()
        self.apart: dict[tuple[int, int], int] = {}
        for i in one.inputs:
            self._grow(i)

    def add(self, node: Node) -> None:
        """Adds what a node becomes; raises ShapeError where it has no form for several samples."""
        row = row_of(node.op)
        if not self.grown.intersection(node.inputs):
            self.nodes.append(node)
        elif row.forward.view is always:
            (y,) = node.outputs
            self._grow(y)
            self.view(node.inputs[0], y, node.origin)
        elif self._takes_rows(row, node):
            for i in node.outputs:
                self._grow(i)
            self.nodes.append(replace(node, attrs=self._attrs(row, node, self.samples)))
        else:
            self._add_with_axis(row, node)

    def _grow(self, i: int) -> None:
        self.grown.add(i)
        self.tensors[i] = replace(
            self.tensors[i], spec=after(self.one.tensors[i].spec, self.samples)
        )

    def _specs(self, row: OpDef, node: Node) -> Specs:
        """Of the operands, of one sample."""
        return {n: self.one.tensors[i].spec for n, i in bind_operands(row, node).items()}

    def _growing(self, row: OpDef, node: Node) -> frozenset[str]:
        return frozenset(n for n, i in bind_operands(row, node).items() if i in self.grown)

    def _attrs(self, row: OpDef, node: Node, samples: int) -> Attrs:
        if row.rebatch is None:
            return node.attrs
        return row.rebatch(node.attrs, self._specs(row, node), samples)

    def _takes_rows(self, row: OpDef, node: Node) -> bool:
        """Whether each entry of axis 0 of the outputs comes from one of the inputs'."""
        growing, specs = self._growing(row, node), self._specs(row, node)
        made = {n: self.one.tensors[i].spec for n, i in bind_outputs(row, node).items()}
        leads = {lead(specs[n]) for n in growing} | {lead(spec) for spec in made.values()}
        if len(leads) > 1:
            return False
        specs = {n: after(spec, MANY) if n in growing else spec for n, spec in specs.items()}
        attrs = self._attrs(row, node, MANY)
        try:
            found = row.infer(attrs, specs)
        except ShapeError:
            return False
        wanted = {n: after(spec, MANY) for n, spec in made.items()}
        return all(found[n] == wanted[n] for n in wanted) and not row.mixes(attrs, specs, growing)

    def _add_with_axis(self, row: OpDef, node: Node) -> None:
        """With samples in an axis of their own, and all operands that grow of one rank."""
        if row.stacked is None:
            raise ShapeError(f"{node.op} has no form for several samples")
        growing, specs = self._growing(row, node), dict(self._specs(row, node))
        rank = max(len(spec.shape) for spec in specs.values())
        operands = bind_operands(row, node)
        made = {i: self._with_axis(node, i, rank) for i in node.inputs if i in self.grown}
        specs |= {n: self.tensors[made[operands[n]]].spec for n in growing}
        attrs = row.stacked(node.attrs, self.samples)
        try:
            found = row.infer(attrs, specs)
        except ShapeError:  # what is the same for all samples must be there for each
            fixed = [i for i in dict.fromkeys(operands.values()) if i not in self.grown]
            made |= {i: self._repeated(node, i) for i in fixed}
            specs = {n: self.tensors[made[i]].spec for n, i in operands.items()}
            found = row.infer(attrs, specs)
        if row.mixes(attrs, specs, growing):
            raise ShapeError(f"{node.op} mixes samples")
        outputs = bind_outputs(row, node)
        apart: dict[int, int] = {}
        for name, i in outputs.items():
            self._grow(i)
            whole, here = self.tensors[i].spec, found[name]
            if here.shape != whole.shape:
                if here.shape != (self.samples, *self.one.tensors[i].spec.shape):
                    raise ShapeError(f"{node.op} makes other shapes of several samples")
                apart[i] = self._several(i, here.shape)
        inputs = tuple(made.get(i, i) for i in node.inputs)
        outs = tuple(apart.get(i, i) for i in node.outputs)
        self.nodes.append(replace(node, inputs=inputs, outputs=outs, attrs=attrs))
        for i, k in apart.items():
            self.view(k, i, node.origin)

    def _with_axis(self, node: Node, i: int, rank: int) -> int:
        spec = self.one.tensors[i].spec
        shape = (self.samples, *(1,) * (rank - len(spec.shape)), *spec.shape)
        if shape == self.tensors[i].spec.shape:
            return i
        if (i, rank) not in self.apart:
            self.apart[i, rank] = self._several(i, shape)
            self.view(i, self.apart[i, rank], node.origin)
        return self.apart[i, rank]

    def _repeated(self, node: Node, i: int) -> int:
        shape = self.samples, *self.one.tensors[i].spec.shape
        target = np.array(shape, np.int32)
        inputs = i, self.constant(target)
        y = self._several(i, shape)
        attrs = row_of("BROADCAST_TO").attrs({}, {"shape": target})
        self.nodes.append(Node("BROADCAST_TO", inputs, (y,), {}, node.origin, attrs))
        return y

    def _several(self, i: int, shape: tuple[int, ...]) -> int:
        """A tensor like another with an axis for the samples."""
        return self.tensor(f"{self.one.tensors[i].name}/samples", shape, self.tensors[i].spec)


def lead(spec: TensorSpec) -> int:
    """Entries of axis 0; one of a scalar."""
    return spec.shape[0] if spec.shape else 1


def after(spec: TensorSpec, samples: int) -> TensorSpec:
    """Of several samples, one after the other."""
    return TensorSpec((lead(spec) * samples, *spec.shape[1:]), spec.dtype)
