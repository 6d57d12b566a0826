"""A graph of operators that TFLite has, from a lowered graph.

Operators that only odt or only Circle has are composed of others (core/export/builtin_forms.py).
Values that depend on constants alone are computed: gates that a file keeps in one weight, for
example, which the cells of runtimes read one by one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from odt.core.formats.flatbuffer.operator_options import default_options
from odt.core.lowering.binding import bind_inputs, bind_operands, bind_outputs, expand, row_of
from odt.core.lowering.graph_builder import GraphBuilder, node_of
from odt.core.model.graph import LoweredGraph, Node
from odt.kernels.rows.opdef import Array, OpDef, TensorSpec

# A node on constants is computed if its outputs are small or grow little.
SMALL = 1 << 16  # bytes of the outputs
MAX_GROWTH = 2  # bytes of the outputs over those of the inputs


class BuiltinGraph(GraphBuilder):
    """Collects nodes, infers the specs of their outputs, and computes constants.

    Attributes:
        origin: position in the file of the operator that is being added.
    """

    def __init__(self, graph: LoweredGraph) -> None:
        super().__init__(graph)
        self.origin = 0

    def shape(self, x: int) -> tuple[int, ...]:
        """Returns the shape of a tensor."""
        return self.tensors[x].spec.shape

    def add(
        self,
        op: str,
        inputs: Sequence[int],
        out: int | None = None,
        count: int = 1,
        **options: Any,
    ) -> int:
        """Adds a node; returns its first output, which the others follow.

        Args:
            op: operator of TFLite.
            inputs: its inputs.
            out: tensor that is its output; None for new ones.
            count: number of outputs.
            options: options that differ from the schema's defaults.
        """
        start = len(self.tensors)
        like = TensorSpec((), self.tensors[inputs[-1 if op == "SPLIT" else 0]].spec.dtype)
        if out is None:
            for _ in range(count):
                self.tensor("", (), like)
        outputs = tuple(range(start, start + count)) if out is None else (out,)
        node = Node(op, tuple(inputs), outputs, {**default_options(op), **options}, self.origin)
        row = row_of(op)
        attrs = row.attrs(
            {**node.options, "output_types": (like.dtype,) * count}, self._statics(row, node)
        )
        node = replace(node, attrs=attrs)
        specs = row.infer(attrs, self._specs(bind_operands(row, node)))
        for name, i in bind_outputs(row, node).items():
            self.tensors[i] = replace(self.tensors[i], spec=specs[name])
        self.append(node)
        return outputs[0]

    def append(self, node: Node) -> None:
        """Adds a node that has attributes, or computes its outputs if its inputs are constants.

        Outputs of the graph, states, and constants that would grow much are not computed.
        """
        if node.op == "FULLY_CONNECTED" and node.options.get("keep_num_dims"):
            node = self._on_rows(node)
        if self._is_constant(node):
            self._compute(node)
        else:
            self.nodes.append(node)

    def _is_constant(self, node: Node) -> bool:
        """Whether the outputs of a node become constants."""
        row = row_of(node.op)
        operands = [self.tensors[i] for i in bind_operands(row, node).values()]
        if row.zero_state or any(tensor.data is None for tensor in operands):
            return False
        if not set(node.outputs).isdisjoint(self._graph.outputs):
            return False
        input_size = sum(tensor.spec.nbytes for tensor in operands)
        output_size = sum(self.tensors[i].spec.nbytes for i in bind_outputs(row, node).values())
        return output_size <= max(SMALL, MAX_GROWTH * input_size)

    def _compute(self, node: Node) -> None:
        """Runs the kernel of a node on constants; its outputs become constants."""
        row = row_of(node.op)
        operands, outputs = bind_operands(row, node), bind_outputs(row, node)
        specs = self._specs({**operands, **outputs})
        extra = {**row.aux(node.attrs, specs), **row.forward.workspace(node.attrs, specs)}
        writes = {name: specs[name] for name in outputs} | extra
        arrays = {name: np.empty(spec.shape, spec.dtype) for name, spec in writes.items()}
        reads = {
            name: self.tensors[operands[name]].data for name in expand(row.forward.reads, operands)
        }
        row.forward.run(node.attrs, **reads, **arrays, **row.forward.prepare(node.attrs, specs))
        for name, i in outputs.items():
            self.tensors[i] = replace(self.tensors[i], data=arrays[name])

    def _on_rows(self, node: Node) -> Node:
        """Adds a dense layer on rows (N, I), as onert computes it; returns the RESHAPE of them."""
        (y,) = node.outputs
        options = {**node.options, "keep_num_dims": False}
        shape = self.shape(y)
        rows = self.tensor("", (math.prod(shape[:-1]), shape[-1]), self.tensors[y].spec)
        attrs = row_of(node.op).attrs(options, {})
        self.append(replace(node, outputs=(rows,), options=options, attrs=attrs))
        return node_of(
            "RESHAPE", (rows, self.numbers(shape)), (y,), node.origin, {}, new_shape=shape
        )

    def numbers(self, values: Any) -> int:
        """Adds a constant of float32 or int32 numbers."""
        a = np.asarray(values)
        return self.constant(a.astype(np.float32 if a.dtype.kind == "f" else np.int32))

    def steps(self, x: int) -> list[int]:
        """Returns the entries (N, C) of (N, T, C)."""
        n, count, width = self.shape(x)
        if count == 1:
            return [self.reshaped(x, (n, width))]
        first = self.add("UNPACK", (x,), count=count, num=count, axis=1)
        return list(range(first, first + count))

    def reshaped(self, x: int, shape: Sequence[int], out: int | None = None) -> int:
        """Adds a RESHAPE; returns its output, a new tensor or `out`."""
        return self.add("RESHAPE", (x, self.numbers(shape)), out, new_shape=tuple(shape))

    def _statics(self, row: OpDef, node: Node) -> Mapping[str, Array]:
        """Returns the values of the static inputs that are constants, by name."""
        bound = bind_inputs(row, node)
        values = {name: self.tensors[bound[name]].data for name in row.static if name in bound}
        return {name: value for name, value in values.items() if value is not None}

    def _specs(self, bound: Mapping[str, int]) -> dict[str, TensorSpec]:
        return {name: self.tensors[i].spec for name, i in bound.items()}
