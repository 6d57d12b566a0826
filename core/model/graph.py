"""A model as a graph of tensors and nodes. Independent of files, memory and training.

Indices are those of the file; tensors that `lower` adds have larger indices.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, NewType, Protocol

import numpy as np

from odt.core.model.onnx import Layout
from odt.dataclass import dataclass
from odt.errors import ModelError, one_line
from odt.kernels.geometry.block_formats import BlockFormat
from odt.kernels.geometry.decoders import Decoder, decoded
from odt.kernels.geometry.weight_quantization import WeightQuantization
from odt.kernels.rows.opdef import Array, TensorSpec

# Of a tensor: `flat` and `broadcast_shapes` of NumPy take 32, one of which may be an added batch.
MAX_AXES = 31
MAX_BYTES = 2**40  # of one tensor: more than any machine that trains has
MAX_NAME = 80  # characters of a name in messages and tables
FLEX = "CUSTOM:Flex"  # with which the names of TensorFlow's operators begin
COMPILED = ("CUSTOM:ethos-u",)  # operators of accelerators, which read memory that no node writes
MAX_EPSILON = 0.01  # the largest constant that counts as keeping a divisor from 0
FIXED = "input with a value of the user's"  # why it does not train
ABSENT = -1  # in a node's inputs: an optional input that is absent


@dataclass(frozen=True, slots=True)
class Tensor:
    """One entry of the model's tensor list.

    Attributes:
        name: name in the file; may be empty, need not be unique.
        spec: shape and dtype in the file; the batch is usually 1.
        signature: shape with −1 for entries that the file leaves open.
        data: values of a constant, a read-only view of the file; None for an activation. A float32
            weight that is in memory as the file stores it has its integers or blocks here.
        buffer: index of a constant's buffer in the file. Tensors with the same buffer have equal
            values in the file, and are nevertheless separate weights.
        quantized: whether the tensor has a scale, so that its integers represent real numbers.
        variable: whether the tensor keeps its value from one run to the next; with data, whether it
            is the initial value of such a state, which does not train.
        formula: whether it is a constant of an operator that odt computes from several nodes and
            runtimes in one kernel; it does not train, since they do not read it.
        constant_reason: why a constant does not train unless a user names it, such as "initial
            state of a recurrent layer"; empty for a weight (core/lowering/constants).
        quantization: how the file stores a float32 weight, which nodes read rounded to its
            integers, or an input of integers; None for other tensors.
        decoder: computes the values from `data`; None if `data` has the values.
        places: positions in the flat constant of the values that the file stores, if it is sparse:
            all other values are 0, also in training; None for other tensors.
        aliases: names of an input or output in the signature.
        entry: position in the inputs or outputs of the signature; None if it is not there.
        layout: arrangement in memory of a weight of an ONNX file, if kernels need another than the
            file's; None for the file's.
        symbols: names of the axes of an input that an ONNX file leaves open, "" for others; empty
            if no axis has a name.
    """

    name: str
    spec: TensorSpec
    signature: tuple[int, ...] = ()
    data: np.ndarray[Any, Any] | None = None
    buffer: int = 0
    quantized: bool = False
    variable: bool = False
    formula: bool = False
    constant_reason: str = ""
    quantization: WeightQuantization | None = None
    decoder: Decoder | None = None
    places: np.ndarray[Any, Any] | None = None
    aliases: tuple[str, ...] = ()
    entry: int | None = None
    layout: Layout | None = None
    symbols: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which users may give the tensor: in the file, in the signature."""
        return tuple(dict.fromkeys(n for n in (self.name, *self.aliases) if n))

    @property
    def open_axes(self) -> tuple[int, ...]:
        """The axes that the file leaves open, other than the batch."""
        return tuple(k for k, size in enumerate(self.signature) if size < 0 and k)

    @property
    def open_text(self) -> str:
        """The open axes with their names, for messages; empty if there are none."""
        names = {k: f" ({one_line(s, MAX_NAME)})" for k, s in enumerate(self.symbols) if s}
        axes = [f"{k}{names.get(k, '')}" for k in self.open_axes]
        return f"{'axes' if len(axes) > 1 else 'axis'} {', '.join(axes)}" if axes else ""

    @property
    def is_in_blocks(self) -> bool:
        """Whether it is a weight in blocks of GGML, which does not train."""
        return isinstance(self.decoder, BlockFormat)

    @property
    def real(self) -> np.ndarray[Any, Any] | None:
        """The values of a constant, decoded if `data` holds them in another form."""
        if self.data is None or self.decoder is None:
            return self.data
        return decoded(self.decoder, self.data, self.spec.shape)

    def with_values(self, values: np.ndarray[Any, Any]) -> "Tensor":
        """Returns a constant with other values, in the shape and dtype of its spec."""
        return replace(self, data=values, decoder=None)

    @property
    def scalar(self) -> np.ndarray[Any, Any] | None:
        """The value of a scalar constant; None for other tensors.

        Converters from ONNX give a scalar as many axes as the other operand has. A vector of one
        value is not a scalar here: it may be a weight.
        """
        if self.spec.size != 1 or len(self.spec.shape) == 1 or self.variable:
            return None
        real = self.real
        return None if real is None else real.reshape(())


@dataclass(frozen=True, slots=True)
class Node:
    """One use of an operator.

    Attributes:
        op: BuiltinOperator name; `CUSTOM:name` for a custom operator.
        inputs: tensor indices in schema order; ABSENT for an optional input left out.
        outputs: tensor indices.
        options: the schema's options, snake case; enumerations as integers, vectors as tuples.
        origin: position of the operator in the file; several nodes have the same origin if lowering
            computes the operator by them, or if they are of a subgraph that it runs.
        attrs: attributes computed by the operator's row from options and static inputs; set by
            `lower`.
    """

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any]
    origin: int
    attrs: Any = None


@dataclass(frozen=True, slots=True)
class Body:
    """Nodes that a node of an ONNX file runs, such as a branch of If.

    Attributes:
        nodes: the nodes, in order; their tensors are those of the graph.
        outputs: tensors with the results.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """Tensors, and nodes in the order in which they run.

    Attributes:
        samples: batch size for which the graph was lowered; 0 for a file's graph.
        kinds: position in an ONNX file → kind of its node, such as Conv; empty for other files.
        marked: whether `constant_reason` is set for its constants that do not train.

    Raises:
        ModelError: if a tensor index does not exist, an input is a constant, a tensor has two
            producers, a constant or an input is written, a node reads a tensor before it is
            computed, or no node computes an output.
    """

    tensors: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    name: str = field(default="", compare=False)
    samples: int = 0
    kinds: Mapping[int, str] = field(default_factory=dict, compare=False)
    marked: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        ready = {i for i, t in enumerate(self.tensors) if t.data is not None or t.variable}
        self._check_indices("graph input", self.inputs)
        self._check_indices("graph output", self.outputs)
        for i in self.inputs:
            data = self.tensors[i].data
            if data is not None:
                raise ModelError(
                    f"graph input {self.label(i)}: must have no values in the file, "
                    f"but got {data.size}"
                )
        ready.update(self.inputs)
        for k, node in enumerate(self.nodes):
            for i in node.inputs:
                if i not in ready and i != ABSENT:
                    self._check_indices(f"{_where(node)}: input", (i,))
                    if node.op not in COMPILED:
                        raise ModelError(
                            f"{_where(node)}: inputs must be computed before they are read, but "
                            f"got {self.label(i)}, which no node before node {k} computes"
                        )
            for i in node.outputs:
                if not 0 <= i < len(self.tensors):
                    self._check_indices(f"{_where(node)}: output", (i,))
                if i in ready:
                    raise ModelError(
                        f"{_where(node)}: a tensor must have one producer, but got "
                        f"{self.label(i)} twice"
                    )
                ready.add(i)
        for i in self.outputs:
            if i not in ready:
                raise ModelError(f"graph output {self.label(i)}: must be computed by an operator")

    def _check_indices(self, where: str, indices: tuple[int, ...]) -> None:
        for i in indices:
            if not 0 <= i < len(self.tensors):
                raise ModelError(f"{where}: index must be below {len(self.tensors)}, but got {i}")

    def label(self, index: int) -> str:
        """Returns the name of a tensor in messages."""
        return label(self.tensors, index)

    def count_reads(self) -> Counter[int]:
        """Counts how often each tensor is read by nodes, or is an output."""
        return Counter(i for node in self.nodes for i in node.inputs) + Counter(self.outputs)

    def epsilons(self) -> frozenset[int]:
        """Returns the constants that keep a divisor from 0.

        They have one value, above 0 and at most MAX_EPSILON, which is added before or after a
        square root, or is a lower limit there.
        """
        roots = [node for node in self.nodes if node.op in ("SQRT", "RSQRT")]
        root_tensors = {i for node in roots for i in (*node.inputs, *node.outputs)}
        sums = [node for node in self.nodes if node.op in ("ADD", "MAXIMUM")]
        beside_roots = [n for n in sums if root_tensors.intersection(n.inputs + n.outputs)]
        terms = {i for node in beside_roots for i in node.inputs}
        values = {i: self.tensors[i].data for i in terms - {ABSENT}}
        return frozenset(
            i
            for i, a in values.items()
            if a is not None and a.size == 1 and 0 < a.item() <= MAX_EPSILON
        )

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs in files; an output without a name of its own has its number."""
        all_names = [n for i in self.outputs for n in self.tensors[i].names]
        all_names += map(str, range(len(self.outputs)))
        names = [self.tensors[i].name for i in self.outputs]
        return tuple(n if n and all_names.count(n) == 1 else str(k) for k, n in enumerate(names))

    def __str__(self) -> str:
        lines = [f"graph {self.name}: {len(self.nodes)} nodes, {len(self.tensors)} tensors"]
        lines += [f"  input  {self.label(i)} {self.tensors[i].spec}" for i in self.inputs]
        for node in self.nodes:
            outs = ", ".join(f"t{i} {self.tensors[i].spec.shape}" for i in node.outputs)
            ins = ", ".join("–" if i == ABSENT else f"t{i}" for i in node.inputs)
            lines.append(f"  {node.origin:3d} {node.op}({ins}) → {outs}")
        lines += [f"  output {self.label(i)} {self.tensors[i].spec}" for i in self.outputs]
        return "\n".join(lines)


def _where(node: Node) -> str:
    return f"operator {node.origin} ({node.op})"


class TensorLabels(Protocol):
    """Tensors and their names in messages: a graph, or one that is being built."""

    @property
    def tensors(self) -> Sequence[Tensor]: ...

    def label(self, index: int) -> str: ...


def label(tensors: Sequence[Tensor], index: int) -> str:
    """Returns the name of a tensor in messages."""
    name = one_line(tensors[index].name, MAX_NAME)
    return f'tensor {index} ("{name}")' if name else f"tensor {index}"


# A graph from core/lowering: activations are nodes, shapes are for one batch size.
LoweredGraph = NewType("LoweredGraph", Graph)


def first_of_buffer(graph: Graph) -> dict[int, int]:
    """Returns constant → first constant with the same buffer and spec."""
    first: dict[tuple[int, TensorSpec], int] = {}  # buffer and spec → the first such constant
    return {
        i: first.setdefault((t.buffer, t.spec), i)
        for i, t in enumerate(graph.tensors)
        if t.data is not None and t.buffer
    }


def ranges(graph: Graph) -> Iterator[tuple[int, Node]]:
    """Yields the ranges that may follow training, with each FAKE_QUANT that reads them.

    A range is the tensor of the numbers that one or several FAKE_QUANT nodes read.
    """
    for node in graph.nodes:
        if node.op == "FAKE_QUANT" and node.inputs[1:]:
            yield node.inputs[1], node


def has_ranges(graph: Graph) -> bool:
    """Whether a graph has ranges that may follow training."""
    return next(ranges(graph), None) is not None


def changed_constants(before: Graph, after: Graph) -> dict[int, Array]:
    """Returns the constants that differ between two graphs, by tensor index."""
    pairs = zip(before.tensors, after.tensors, strict=True)
    return {
        i: new.data
        for i, (old, new) in enumerate(pairs)
        if new.data is not None and new.data is not old.data
    }
