"""Builds the graph of an ONNX file, inferring each node's shapes when it is added.

The meaning of most ONNX nodes depends on ranks and on values of integers, so shapes must be known
while nodes are made.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from odt.core.formats.flatbuffer.operator_options import default_options
from odt.core.lowering.binding import bind_operands, row_of
from odt.core.lowering.graph_builder import inverse
from odt.core.lowering.infer import infer_node, start_inference
from odt.core.model.graph import ABSENT, Body, Graph, Node, Tensor, label
from odt.core.model.model import Model
from odt.core.model.onnx import PREFIX, Layout, OnnxNode
from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.rows.opdef import Array, TensorSpec

NCHW_TO_NHWC, NHWC_TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
FLOAT32, INT32, INT64 = np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.int64)
MAX_MOVES = 64  # nodes between zeros and their use
FILTERED = ("Conv", "ConvTranspose")  # kinds whose second input is a filter
MOVES = frozenset(
    ("FILL", "BROADCAST_TO", "RESHAPE", "TRANSPOSE", "STRIDED_SLICE", "CONCATENATION", "GATHER")
)
COMPARISONS = ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
BOOLS = frozenset((*COMPARISONS, "LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT"))


def _count_reads(graph: Graph) -> Counter[int]:
    """Counts how often each tensor is read, also in branches."""
    reads = graph.count_reads()
    bodies = [graph.nodes]
    while bodies:
        for node in bodies.pop():
            for body in node.options["onnx"].attributes.values():
                if isinstance(body, Body):
                    reads.update(i for inner in body.nodes for i in inner.inputs)
                    reads.update(body.outputs)
                    bodies.append(body.nodes)
    return reads


class Builder:
    """Collects tensors and nodes; tensors of the file keep their indices.

    Attributes:
        graph: the graph of the file.
        batch_statistics: as in Model.
        reads: how often the file reads each tensor.
        tensors, nodes: of the new graph.
        inference: shapes, and values of constants and of integers that follow from them.
        renamed: output of the file → the tensor with its value, if it is another.
        makers: tensor → the node that computes it.
        absorbed: tensors of which nothing is left to read, since another node computes their sum.
        origin: position in the file of the node that is being lowered.
    """

    def __init__(self, model: Model) -> None:
        graph = model.graph
        self.batch_statistics = model.batch_statistics
        self.graph = graph
        self.reads = _count_reads(graph)
        self.tensors = list(graph.tensors)
        self.nodes: list[Node] = []
        self.inference = start_inference(graph, 1, 1)
        self.renamed: dict[int, int] = {}
        self.makers: dict[int, Node] = {}
        self.absorbed: set[int] = set()
        self.origin = 0
        self._as_in_file: set[int] = set()
        self._in_file_layout: dict[int, int] = {}
        # Tensor → order of axes → its transpose, recorded in both directions.
        self._transposed: dict[int, dict[tuple[int, ...], int]] = {}
        # Tensor → the constant of which it is a transpose, in what shape, and its axes.
        self._turned: dict[int, tuple[int, tuple[int, ...], tuple[int, ...]]] = {}

    def label(self, index: int) -> str:
        return label(self.tensors, index)

    def spec(self, x: int) -> TensorSpec:
        return self.inference.specs[x]

    def shape(self, x: int) -> tuple[int, ...]:
        return self.inference.specs[x].shape

    def is_known(self, x: int) -> bool:
        """Whether the shape of a tensor of the file has been inferred."""
        return self.renamed.get(x, x) in self.inference.specs

    def value(self, x: int) -> Array | None:
        """Returns the value of a constant, or of integers that follow from constants."""
        inference = self.inference
        value = inference.values.get(x)
        return inference.reals.get(x) if value is None else value

    def constant(self, values: Any, dtype: Any = INT32) -> int:
        """Adds a constant that does not train."""
        try:
            data = np.array(values, dtype)
        except (OverflowError, TypeError, ValueError) as e:
            raise ShapeError(f"constants must fit into {np.dtype(dtype)}: {e}") from e
        data.flags.writeable = False
        spec = TensorSpec(data.shape, data.dtype)
        return self._append(Tensor("", spec, data.shape, data, formula=True))

    def hold(self, x: int, reason: str) -> None:
        """Marks a constant as one that does not train unless a user names it."""
        if self.tensors[x].data is not None and not self.tensors[x].constant_reason:
            self.tensors[x] = replace(self.tensors[x], constant_reason=reason)

    def is_zero(self, x: int) -> bool:
        """Whether a tensor is zeros, such as a first state in the size of the batch."""
        sources = [x]
        moves = 0
        while sources:
            i = sources.pop()
            data, maker = self.tensors[i].data, self.makers.get(i)
            if data is not None:
                if data.any():
                    return False
            elif maker is None or maker.op not in MOVES or moves == MAX_MOVES:
                return False
            else:
                moves += 1
                sources += [k for k in maker.inputs if self.spec(k).dtype.kind == "f"]
        return True

    def is_constant(self, x: int) -> bool:
        """Whether a tensor is a constant of the file, or a transpose of one."""
        source, *_ = self._turned.get(x, (x,))
        return self.tensors[source].data is not None

    def is_filter(self, x: int) -> bool:
        """Whether a tensor of the file is read as a filter of convolutions, and nowhere else."""
        layers = (n for n in self.graph.nodes if n.op.removeprefix(PREFIX) in FILTERED)
        return 0 < sum(n.inputs[1:2] == (x,) for n in layers) == self.reads[x]

    def turn(self, x: int, sizes: Sequence[int], order: Sequence[int], y: int) -> None:
        """Records that tensor y of the file is constant x in another shape, then transposed.

        A node that reads y as a weight gets x in the order that it needs.

        Args:
            x: the constant.
            sizes: shape before the transpose.
            order: axes of this shape in the order of y.
            y: the tensor.
        """
        spec = TensorSpec(tuple(sizes[k] for k in order), self.spec(x).dtype)
        self.tensors[y] = replace(self.tensors[y], spec=spec, signature=spec.shape)
        self.inference.specs[y] = spec
        self._turned[y] = x, tuple(sizes), tuple(order)

    def plain(self, x: int) -> int:
        """Returns a tensor with the layout of the file."""
        x = self.renamed.get(x, x)
        if x in self._turned:
            source, sizes, order = self._turned[x]
            return self.transpose(self.reshape(self.plain(source), sizes), order)
        layout = self.tensors[x].layout
        if layout is None:
            self._as_in_file.add(x)
            return x
        if x not in self._in_file_layout:
            moved = self.reshape(x, [layout.sizes[k] for k in layout.order])
            y = self.transpose(moved, inverse(layout.order))
            self._in_file_layout[x] = self.reshape(y, layout.shape)
        return self._in_file_layout[x]

    def weight(
        self,
        x: int,
        order: Sequence[int],
        shape: Sequence[int] | None = None,
        divided: Sequence[int] = (),
    ) -> int:
        """Returns a tensor with its axes in another order, and then in another shape.

        If no node reads a constant of the file in another form, it gets this one in memory; for
        other tensors, nodes are added.

        Args:
            x: the tensor.
            order: its axes in the new order.
            shape: shape afterwards; None to leave it as it is then.
            divided: shape before, in which axes of the tensor are divided into several; () if they
                are not.
        """
        x = self.renamed.get(x, x)
        if x in self._turned:
            source, sizes, turned = self._turned[x]
            if not divided:
                x, order = source, [turned[k] for k in order]
                divided = () if sizes == self._file_shape(x) else sizes
            elif turned == tuple(range(len(turned))):  # the constant in another shape
                x = source
        tensor = self.tensors[x]
        order, divided = tuple(order), tuple(divided)
        layout = Layout(self._file_shape(x), order, divided)
        target = tuple(layout.sizes[k] for k in order) if shape is None else tuple(shape)
        if tensor.layout == layout:
            if tensor.spec.shape == target:
                return x
        elif tensor.data is not None and tensor.layout is None and x not in self._as_in_file:
            if len(layout.sizes) != len(order):
                raise ShapeError(f"weights must have {len(order)} axes, but got {layout.shape}")
            if math.prod(target) != tensor.data.size:
                raise ShapeError(
                    f"weights must have {math.prod(target)} values, but got {layout.shape}"
                )
            values = layout.to_memory(tensor.data, target)
            values.flags.writeable = False
            spec = TensorSpec(target, values.dtype)
            self.tensors[x] = replace(
                tensor, spec=spec, signature=target, data=values, layout=layout
            )
            self.inference.specs[x], self.inference.values[x] = spec, values
            return x
        y = self.transpose(self.reshape(self.plain(x), layout.sizes), order)
        return self.reshape(y, target)

    def _file_shape(self, x: int) -> tuple[int, ...]:
        layout = self.tensors[x].layout
        return self.spec(x).shape if layout is None else layout.shape

    def transpose(self, x: int, order: Sequence[int]) -> int:
        """Adds a TRANSPOSE, which is left out where it moves nothing or x is one number."""
        order = tuple(order)
        if order == tuple(range(len(order))):
            return x
        maker = self.makers.get(x)
        if maker is not None and maker.op == "FILL":
            return self.add(
                "FILL", (self.constant([self.shape(x)[k] for k in order]), *maker.inputs[1:])
            )
        known = self._transposed.setdefault(x, {})
        if order not in known:
            y = known[order] = self.add("TRANSPOSE", (x, self.constant(order)))
            self._transposed.setdefault(y, {})[inverse(order)] = x
        return known[order]

    def reshape(self, x: int, shape: Sequence[int]) -> int:
        """Adds a RESHAPE, which is left out where it changes nothing."""
        shape = tuple(int(n) for n in shape)
        if self.shape(x) == shape:
            return x
        return self.add("RESHAPE", (x, self.constant(shape)), new_shape=shape)

    def slice(
        self,
        x: int,
        begin: Sequence[int] | Array,
        end: Sequence[int] | Array,
        steps: Sequence[int] | Array | None = None,
        **masks: Any,
    ) -> int:
        """Adds a STRIDED_SLICE.

        Args:
            x: the tensor.
            begin, end: positions on each axis, the last one not included.
            steps: steps on each axis; None for 1.
            masks: begin_mask and end_mask, with a bit for each axis that is open.
        """
        steps = [1] * len(begin) if steps is None else steps
        bounds = (self.constant(v) for v in (begin, end, steps))
        return self.add("STRIDED_SLICE", (x, *bounds), **masks)

    def add(
        self, op: str, inputs: Sequence[int], dtype: np.dtype[Any] | None = None, **options: Any
    ) -> int:
        """Adds a node of one output; returns it.

        Args:
            op: operator of odt.
            inputs: its inputs.
            dtype: dtype of the output; None for that of the first operand, or for truth values.
            options: options that differ from the schema's defaults.
        """
        return self.add_several(op, inputs, 1, dtype, **options)[0]

    def add_several(
        self,
        op: str,
        inputs: Sequence[int],
        outputs: int,
        dtype: np.dtype[Any] | Sequence[np.dtype[Any]] | None = None,
        **options: Any,
    ) -> list[int]:
        """Adds a node of several outputs, of one dtype or of one each; returns them."""
        row = row_of(op)
        whole = {**default_options(op), **options}
        start = len(self.tensors)
        results = [*range(start, start + outputs)]
        node = Node(op, tuple(inputs), tuple(results), whole, self.origin)
        if dtype is None and op in BOOLS:
            dtype = np.dtype(bool)
        if dtype is None:
            operands = list(bind_operands(row, node).values())
            values = -1 if op == "SELECT_V2" else 0  # the first operand of SELECT_V2 is a condition
            dtype = self.spec(operands[values]).dtype if operands else INT64
        dtypes = dtype if isinstance(dtype, Sequence) else [dtype] * outputs
        self.tensors += [Tensor("", TensorSpec((), each)) for each in dtypes]
        try:
            infer_node(self, node, row, self.inference, None)
        except ShapeError:
            del self.tensors[start:]
            raise
        for i in results:
            spec = self.spec(i)
            self.tensors[i] = Tensor("", spec, spec.shape)
        self.nodes.append(node)
        self.makers.update(dict.fromkeys(results, node))
        return results

    def name(self, results: Sequence[int], outputs: Sequence[int], first: int) -> None:
        """Gives results the indices of a node's outputs in the file.

        Args:
            results: tensors with the values.
            outputs: tensors of the file.
            first: number of the first node of the graph that was added for the node.
        """
        results_of_nodes = {i for node in self.nodes[first:] for i in node.outputs}
        indices: dict[int, int] = {}
        for x, y in zip(results, outputs, strict=False):  # nothing reads outputs without a result
            is_end = y in self.graph.outputs
            has_data = self.tensors[x].data is not None
            if x in results_of_nodes and x not in indices:
                indices[x] = y
            elif is_end and (x in indices or x < len(self.graph.tensors) or has_data):
                indices[self._copy(x)] = y  # the outputs of a graph have names of their own
            elif is_end:
                indices[x] = y
            else:
                self.renamed[y] = indices.get(x, x)
        for x, y in indices.items():
            self._move(x, y)
        if not indices:
            return

        def moved(items: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(indices.get(i, i) for i in items)

        # No earlier node reads the results of the nodes that were added for this one.
        start = first if results_of_nodes >= indices.keys() else 0
        for k in range(start, len(self.nodes)):
            node = self.nodes[k]
            inputs, new_outputs = moved(node.inputs), moved(node.outputs)
            if (inputs, new_outputs) != (node.inputs, node.outputs):
                self.nodes[k] = replace(node, inputs=inputs, outputs=new_outputs)
                self.makers.update(dict.fromkeys(new_outputs, self.nodes[k]))
        if start < first:
            self.renamed.update({y: indices.get(x, x) for y, x in self.renamed.items()})
        for x, y in indices.items():
            known = self._transposed.pop(x, {})
            for order, other in known.items():
                self._transposed[other][inverse(order)] = y
            self._transposed.setdefault(y, {}).update(known)

    def _copy(self, x: int) -> int:
        shape = self.constant(self.shape(x))
        return self.add("RESHAPE", (x, shape), new_shape=self.shape(x))

    def _move(self, x: int, y: int) -> None:
        """Gives what is known of a new tensor to the tensor of the file that it is."""
        inference = self.inference
        spec = inference.specs[x]
        self.tensors[y] = replace(self.tensors[y], spec=spec, signature=spec.shape)
        inference.specs[y] = spec
        by_tensor: tuple[dict[int, Array], ...] = (inference.values, inference.reals)
        for values in by_tensor:
            if x in values:
                values[y] = values[x]
        if x in inference.batched:
            inference.batched.add(y)

    def drop(self, nodes: int, tensors: int) -> None:
        """Drops nodes and tensors from these numbers on."""
        inference = self.inference
        for k in range(tensors, len(self.tensors)):
            for by_tensor in (inference.specs, inference.values, inference.reals):
                by_tensor.pop(k, None)
            inference.batched.discard(k)
            self.makers.pop(k, None)
            for order, other in self._transposed.pop(k, {}).items():
                self._transposed.get(other, {}).pop(inverse(order), None)
        self._in_file_layout = {x: y for x, y in self._in_file_layout.items() if y < tensors}
        del self.nodes[nodes:], self.tensors[tensors:]

    def _append(self, tensor: Tensor) -> int:
        k = len(self.tensors)
        self.tensors.append(tensor)
        if tensor.data is not None:
            self.inference.specs[k] = tensor.spec
            self.inference.values[k] = tensor.data
        return k


@dataclass(frozen=True, slots=True)
class Use:
    """A node of the file that is being lowered.

    Attributes:
        b: builder of the graph.
        node: the node, with the tensors of the file.
        source: what the file says of it.
    """

    b: Builder
    node: Node
    source: OnnxNode

    @property
    def opset(self) -> int:
        return self.source.opset

    def attr(self, name: str, default: Any = None) -> Any:
        """Returns an attribute of the type of its default; the default if it is absent."""
        value = self.source.attributes.get(name)
        if value is None:
            return default
        kind = (int, float) if isinstance(default, float) else type(default)
        if default is not None and not isinstance(value, kind):
            raise ShapeError(f"{name} must be like {default!r:.40}, but got {value!r:.40}")
        return value

    def ints(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...] | None:
        """Returns an attribute of whole numbers."""
        value = self.source.attributes.get(name)
        if value is None:
            return None if default is None else tuple(default)
        if not isinstance(value, tuple) or not all(isinstance(n, int) for n in value):
            raise ShapeError(f"{name} must be whole numbers, but got {value!r:.60}")
        return value

    def has(self, k: int) -> bool:
        """Whether input k is present."""
        return k < len(self.node.inputs) and self.node.inputs[k] != ABSENT

    def raw(self, k: int) -> int:
        """Returns input k in the layout that it has in memory."""
        if not self.has(k):
            raise ShapeError(f"must have {k + 1} inputs, but got {len(self.node.inputs)}")
        return self.b.renamed.get(self.node.inputs[k], self.node.inputs[k])

    def input(self, k: int) -> int:
        """Returns input k in the layout of the file."""
        self.raw(k)
        return self.b.plain(self.node.inputs[k])

    def shape(self, k: int) -> tuple[int, ...]:
        """Returns the shape of input k in the file."""
        x = self.raw(k)
        layout = self.b.tensors[x].layout
        return self.b.shape(x) if layout is None else layout.shape

    def rank(self, k: int) -> int:
        return len(self.shape(k))

    def dtype(self, k: int) -> np.dtype[Any]:
        return self.b.spec(self.raw(k)).dtype

    def value(self, k: int, what: str) -> Array:
        """Returns the values of input k, which must follow from constants and shapes."""
        value = self.b.value(self.input(k))
        if value is None:
            raise ShapeError(
                f"{what} must be a constant, but got {self.b.label(self.node.inputs[k])}, "
                "which is computed from the data"
            )
        return value

    def numbers(self, k: int, what: str) -> tuple[int, ...]:
        """Returns the whole numbers of input k, which must follow from constants and shapes."""
        value = self.value(k, what)
        if value.dtype.kind not in "iu":
            raise ShapeError(f"{what} must be whole numbers, but got {value.dtype}")
        return tuple(int(n) for n in np.ravel(value))

    def number(self, k: int, what: str) -> int:
        """Returns the only whole number of input k, as `numbers` does."""
        numbers = self.numbers(k, what)
        if len(numbers) != 1:
            raise ShapeError(f"{what} must be one number, but got {len(numbers)}")
        return numbers[0]

    def scalar(self, k: int, what: str) -> Array:
        """Returns the only value of input k as an array without axes, as `value` does."""
        value = self.value(k, what)
        if value.size != 1:
            raise ShapeError(f"{what} must be one number, but got shape {value.shape}")
        return value.reshape(())

    def axis(self, axis: int, rank: int) -> int:
        """Returns an axis counted from 0."""
        if not -rank <= axis < rank:
            raise ShapeError(f"axis must be one of {rank}, but got {axis}")
        return axis % rank if rank else 0

    def is_read(self, k: int) -> bool:
        """Whether anything reads output k."""
        outputs = self.node.outputs
        return k < len(outputs) and self.b.reads[outputs[k]] > 0
