"""Low-rank adapters (LoRA): a product of two small matrices added to a frozen weight.

For a weight W (O, I) the layer computes y = W x + (α / r) B A x, with A (r, I) and B (O, r). A is
drawn from U(−1/√I, 1/√I) and B is 0, so that an adapted model computes at first what it did before.
Source: Hu et al., *LoRA: Low-Rank Adaptation of Large Language Models* (2021); the distribution of
A is that of PEFT.

In the graph an adapter is two operators of the kind that it adapts, a MUL between them and an ADD,
all with the position in the file of the adapted operator. They train as any others do.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from numbers import Integral
from typing import Any, TypeGuard

import numpy as np

from odt.core.model.graph import ABSENT, Graph, Node, Tensor
from odt.core.model.tensor_names import similar_names
from odt.dataclass import dataclass
from odt.errors import ModelError, OptionError, UnsupportedError
from odt.kernels.geometry.decoders import IntegerDecoder
from odt.kernels.rows.opdef import Array, TensorSpec
from odt.kernels.rows.scalars import is_number

FLOAT32 = np.dtype(np.float32)
MAX_RANK = 2**31 - 1
WEIGHT = {"FULLY_CONNECTED": 1, "CONV_2D": 1, "BATCH_MATMUL": 1}  # operator → position of W
SAMPLED = "sampled:"  # begins a hash for which large constants were sampled
PAGES, PAGE = 4, 4096  # of a large constant that are hashed, and their bytes
NAMES = ("lora_a", "lora_b")  # ends of the names of A and B


@dataclass(frozen=True, slots=True)
class Adapter:
    """The adapter of one weight.

    Attributes:
        tensor: index of the weight.
        a: float32 (r, I).
        b: float32 (O, r).
    """

    tensor: int
    a: Array
    b: Array


@dataclass(frozen=True, slots=True)
class Adapters:
    """The adapters of a model.

    Attributes:
        model: hash of the model's operators and constants, from `model_hash`.
        alpha: α; the product is scaled by α / r.
        members: one adapter for each adapted weight, of the same rank r.
    """

    model: str
    alpha: float
    members: tuple[Adapter, ...]

    @property
    def rank(self) -> int:
        """The rank r."""
        return len(self.members[0].a)


@dataclass(frozen=True, slots=True)
class AdaptedGraph:
    """A graph with adapters.

    Attributes:
        graph: the graph; its first tensors are those of the model.
        adapters: its adapters.
        tensors: weight → the tensors of A and B.
    """

    graph: Graph
    adapters: Adapters
    tensors: Mapping[int, tuple[int, int]]

    @property
    def trained(self) -> tuple[int, ...]:
        """The tensors that train: A and B of all adapters."""
        return tuple(i for pair in self.tensors.values() for i in pair)

    @property
    def operators(self) -> tuple[int, ...]:
        """Positions in the file of the adapted operators."""
        trained = frozenset(self.trained)
        origins = {n.origin for n in self.graph.nodes if not trained.isdisjoint(n.inputs)}
        return tuple(sorted(origins))

    def trained_adapters(self, weights: Mapping[int, Array]) -> Adapters:
        """Returns the adapters with the values in `weights`, by tensor; others keep theirs."""
        pairs = [self.tensors[adapter.tensor] for adapter in self.adapters.members]
        members = tuple(
            Adapter(
                adapter.tensor,
                weights.get(a, adapter.a).reshape(adapter.a.shape),
                weights.get(b, adapter.b).reshape(adapter.b.shape),
            )
            for adapter, (a, b) in zip(self.adapters.members, pairs, strict=True)
        )
        return replace(self.adapters, members=members)

    @property
    def coarse(self) -> str:
        """Name of an adapted weight that the file stores in few bits or in blocks, or empty."""
        for adapter in self.adapters.members:
            weight = self.graph.tensors[adapter.tensor]
            if weight.is_in_blocks or (weight.quantization and weight.quantization.bits):
                return weight.name
        return ""

    def check_merge(self) -> None:
        """Refuses to merge adapters into weights that the file stores in few bits or in blocks.

        Raises:
            UnsupportedError: if there are such weights.
        """
        if self.coarse:
            raise UnsupportedError(
                f"{self.graph.name}: adapters must stay in a file of their own if their weights "
                f"have 2 or 4 bits or are in blocks, as {self.coarse}: rounding the sum of "
                "both loses most of what the adapters learned. Export the adapters alone, or give "
                "`float_weights=True`."
            )

    def merged(self, weights: Mapping[int, Array]) -> dict[int, Array]:
        """Returns weights of the model without adapters: W + (α / r) B A for each adapted weight.

        Args:
            weights: values by tensor of this graph; others are those of the graph.
        """
        values = {i: a for i, a in weights.items() if i not in self.trained}
        adapters = self.trained_adapters(weights)
        for adapter in adapters.members:
            base = values.get(adapter.tensor, self.graph.tensors[adapter.tensor].real)
            assert base is not None
            product = adapter.b.astype(np.float64) @ adapter.a
            if _is_transposed(self.graph, adapter.tensor):
                product = product.T
            scale = adapters.alpha / adapters.rank
            values[adapter.tensor] = (base + scale * product.reshape(base.shape)).astype(FLOAT32)
        return values


def new_adapters(
    graph: Graph,
    rank: int,
    target: str = "*",
    alpha: float | None = None,
    seed: int = 0,
    without: Collection[str] = (),
) -> Adapters:
    """Makes new adapters, which do not change the model's outputs.

    Args:
        graph: the model's, with float32 weights.
        rank: r, 1 or more.
        target: pattern of the weights' names or operators.
        alpha: α; None for the rank, so that the scale is 1.
        seed: random seed of A.
        without: names of weights that get none.

    Raises:
        OptionError: if a value is invalid, or the pattern matches no weight that can be adapted.
    """
    if not isinstance(rank, Integral) or isinstance(rank, bool) or not 1 <= rank <= MAX_RANK:
        raise OptionError("rank", f"must be a whole number from 1 to {MAX_RANK}", rank)
    alpha = float(rank) if alpha is None else alpha
    if not is_alpha(alpha):
        raise OptionError("alpha", "must be a number above 0 that float32 can hold", alpha)
    sizes = {i: size for i, size in adaptable(graph) if graph.tensors[i].name not in without}
    ops = {i: node.op for node in graph.nodes for i in node.inputs if i in sizes}
    matches = [i for i in sizes if _matches(graph, i, ops[i], target)]
    if not matches:
        names = similar_names(target, [graph.tensors[i].name or ops[i] for i in sizes])
        hint = f"Similar names: {', '.join(names)}; `Model.summary()` lists all."
        if not sizes:
            sparse = any(t.places is not None for t in graph.tensors)
            hint = "The model has none; train it without adapters."
            if sparse:
                hint = "The model's are sparse, and get none; train it without adapters."
        raise OptionError(
            "target",
            "must match the name or the operator of a constant weight of FULLY_CONNECTED, 1×1 "
            "CONV_2D or BATCH_MATMUL",
            f"{target}, which matches none",
            hint,
        )
    _check_rank(graph, rank, {i: min(sizes[i]) for i in matches})
    rng = np.random.default_rng(seed)
    members = []
    for i in matches:
        units, width = sizes[i]
        limit = 1 / math.sqrt(width)
        a = rng.uniform(-limit, limit, (rank, width)).astype(FLOAT32)
        members.append(Adapter(i, a, np.zeros((units, rank), FLOAT32)))
    return Adapters(model_hash(graph), float(alpha), tuple(members))


def _check_rank(graph: Graph, rank: int, most: Mapping[int, int]) -> None:
    """Raises OptionError for a rank that no adapted weight can have.

    Args:
        graph: the model's.
        rank: r.
        most: weight → its largest rank.
    """
    largest = max(most, key=lambda i: most[i])
    if rank > most[largest]:
        rule = f"must be at most {most[largest]}, the largest rank of {graph.label(largest)}"
        raise OptionError("rank", rule, rank)


def adapt(graph: Graph, adapters: Adapters) -> AdaptedGraph:
    """Adds adapters to a graph.

    Args:
        graph: the model's, with float32 weights.
        adapters: made for this model.

    Raises:
        ModelError: if they were made for another model.
    """
    is_sampled = adapters.model.startswith(SAMPLED)
    actual = model_hash(graph) if is_sampled else whole_hash(graph)
    if adapters.model != actual:
        shown = [*map(short_hash, (adapters.model, actual))]
        raise ModelError(
            f"{graph.name}: adapters must be used with the model for which they were made, but "
            f"the hash of that model begins with {shown[0]}, of this one with "
            f"{shown[1]}. Give the original model file."
        )
    sizes = dict(adaptable(graph))
    for adapter in adapters.members:
        if sizes.get(adapter.tensor) != (len(adapter.b), adapter.a.shape[1]):
            raise ModelError(f"{graph.name}: adapters must fit their weights, but do not.")
    builder = _AdapterBuilder(graph, adapters)
    for node in graph.nodes:
        builder.add(node)
    new_graph = replace(graph, tensors=tuple(builder.tensors), nodes=tuple(builder.nodes))
    return AdaptedGraph(new_graph, adapters, builder.pairs)


class _AdapterBuilder:
    """Collects the tensors and nodes of a graph with adapters.

    Attributes:
        tensors: tensors of the graph, then A, B and α / r of each adapter, then results.
        nodes: nodes of the new graph.
        pairs: weight → the tensors of A and B.
    """

    def __init__(self, graph: Graph, adapters: Adapters) -> None:
        self.tensors = list(graph.tensors)
        self.nodes: list[Node] = []
        self.pairs: dict[int, tuple[int, int]] = {}
        self._scales: dict[int, int] = {}  # weight → the tensor of α / r
        self._graph = graph
        self._adapters = adapters
        for adapter in adapters.members:
            self._add_constants(adapter)

    def add(self, node: Node) -> None:
        """Adds a node, and the product with A and B if an adapter adapts its weight."""
        w = _weight(node)
        if w not in self.pairs:
            self.nodes.append(node)
            return
        (y,) = node.outputs
        x = node.inputs[0]
        a, b = self.pairs[w]
        spec = self._graph.tensors[y].spec
        low = TensorSpec((*spec.shape[:-1], self._adapters.rank), FLOAT32)
        plain, options_of_a, options_of_b = _options(node)
        bias = () if node.op == "BATCH_MATMUL" else (ABSENT,)
        # W x, A x, (α / r) A x and (α / r) B A x.
        wx, ax, scaled, bax = (self._add_tensor("", s) for s in (spec, low, low, spec))
        activation = {"fused_activation_function": node.options.get("fused_activation_function", 0)}
        at = node.origin
        self.nodes += [
            replace(node, outputs=(wx,), options=plain),
            Node(node.op, (x, a, *bias), (ax,), options_of_a, at),
            Node("MUL", (ax, self._scales[w]), (scaled,), {}, at),
            Node(node.op, (scaled, b, *bias), (bax,), options_of_b, at),
            Node("ADD", (wx, bax), (y,), activation, at),
        ]

    def _add_constants(self, adapter: Adapter) -> None:
        """Adds A and B in the rank of their operator, and α / r."""
        i, a, b = adapter.tensor, adapter.a, adapter.b
        if _is_read_by(self._graph, i, "CONV_2D"):
            a, b = a[:, None, None], b[:, None, None]
        name = self._graph.tensors[i].name or f"tensor_{i}"
        name_of_a, name_of_b = NAMES
        self.pairs[i] = (
            self._add_constant(f"{name}/{name_of_a}", a),
            self._add_constant(f"{name}/{name_of_b}", b),
        )
        scale = np.full((), self._adapters.alpha / self._adapters.rank, FLOAT32)
        self._scales[i] = self._add_constant("", scale)
        self.tensors[-1] = replace(self.tensors[-1], formula=True)  # it never trains

    def _add_tensor(self, name: str, spec: TensorSpec, values: Array | None = None) -> int:
        """Adds a tensor; returns its index."""
        self.tensors.append(Tensor(name, spec, (), values))
        return len(self.tensors) - 1

    def _add_constant(self, name: str, values: Array) -> int:
        """Adds a constant; returns its index."""
        values = values.view()
        values.flags.writeable = False
        return self._add_tensor(name, TensorSpec(values.shape, FLOAT32), values)


def is_alpha(value: object) -> TypeGuard[float]:
    """Whether a value can be α: a number above 0 that float32 can hold."""
    limits = np.finfo(FLOAT32)
    return is_number(value) and bool(float(limits.tiny) <= value <= float(limits.max))


def adaptable(graph: Graph) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yields the weights that can be adapted, with (O, I); no other operator reads them.

    All layers read W in the same orientation, for which A and B are made. Sparse constants are left
    out: adapters would add values that their files cannot store.
    """
    readers: dict[int, list[Node]] = {}
    for node in graph.nodes:
        for i in node.inputs:
            readers.setdefault(i, []).append(node)
    for i, nodes in readers.items():
        if i != ABSENT and graph.tensors[i].places is not None:
            continue
        sizes = {_sizes(graph, node) if _weight(node) == i else None for node in nodes}
        orientations = {_reads_transposed(node) for node in nodes}
        if len(sizes) == len(orientations) == 1 and (size := sizes.pop()) is not None:
            yield i, size


def short_hash(text: str) -> str:
    """Returns the digits of a model's hash that messages show."""
    return text.removeprefix(SAMPLED)[:8]


def model_hash(graph: Graph) -> str:
    """Computes a hash of operators and constants, equal for TFLite and Circle files.

    Of a large constant it reads a few pages at equal distances, as the file stores them, so that a
    mapped model is not read as a whole. Training changes values in all pages of a weight.
    """
    return SAMPLED + _hash(graph, sampled=True)


def whole_hash(graph: Graph) -> str:
    """Computes the SHA-256 of operators and of the real numbers of all constants.

    Files of adapters that odt wrote before it sampled constants hold it.
    """
    return _hash(graph, sampled=False)


def _hash(graph: Graph, *, sampled: bool) -> str:
    import hashlib

    digest = hashlib.sha256()
    for node in graph.nodes:
        options = sorted((k, v) for k, v in node.options.items() if v)
        digest.update(repr((node.op, node.inputs, node.outputs, options)).encode())
    for tensor in graph.tensors:
        values = tensor.data if sampled else tensor.real
        if values is None:
            continue
        digest.update(repr((tensor.spec.shape, tensor.spec.dtype.name)).encode())
        if sampled and isinstance(tensor.decoder, IntegerDecoder):
            digest.update(tensor.decoder.quantization.scale.tobytes())
        stored = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
        step = max((stored.size - PAGE) // (PAGES - 1), PAGE) if sampled else stored.size
        for at in range(0, stored.size, max(step, 1)):
            digest.update(stored[at : at + (PAGE if sampled else step)].data)
    return digest.hexdigest()


def _weight(node: Node) -> int:
    """Returns the tensor of a node's W; ABSENT for an operator without one."""
    return node.inputs[WEIGHT[node.op]] if node.op in WEIGHT else ABSENT


def _sizes(graph: Graph, node: Node) -> tuple[int, int] | None:
    """Returns (O, I) of a node's weight; None if it cannot be adapted."""
    tensor = graph.tensors[_weight(node)]
    shape = tensor.spec.shape
    if tensor.data is None or tensor.spec.dtype != FLOAT32 or not tensor.spec.size:
        return None
    if node.op == "FULLY_CONNECTED":
        plain = len(shape) == 2 and not node.options.get("weights_format", 0)
        return (shape[0], shape[1]) if plain else None
    if node.op == "CONV_2D":
        channels = graph.tensors[node.inputs[0]].spec.shape[-1:]  # fewer in W: a grouped one
        fits = len(shape) == 4 and shape[1:3] == (1, 1) and shape[3:] == channels
        return (shape[0], shape[3]) if fits else None
    if len(shape) < 2 or any(n != 1 for n in shape[:-2]):
        return None
    rows, columns = shape[-2:]
    return (rows, columns) if node.options.get("adj_y") else (columns, rows)


def _options(node: Node) -> tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]:
    """Returns options of an adapted node without activation, and of the products with A and B."""
    if node.op == "BATCH_MATMUL":
        first = {**node.options, "adj_y": True}
        return node.options, first, {**first, "adj_x": False}
    plain = {**node.options, "fused_activation_function": 0}
    if node.op == "FULLY_CONNECTED":
        return plain, plain, plain
    return plain, plain, {**plain, "stride_w": 1, "stride_h": 1}


def _is_read_by(graph: Graph, i: int, op: str) -> bool:
    """Whether a node of an operator has a tensor as its W."""
    return any(n.op == op and _weight(n) == i for n in graph.nodes)


def _is_transposed(graph: Graph, i: int) -> bool:
    """Whether W is (I, O)."""
    return any(_reads_transposed(n) for n in graph.nodes if _weight(n) == i)


def _reads_transposed(node: Node) -> bool:
    """Whether a node reads W as (I, O): BATCH_MATMUL without adj_y."""
    return node.op == "BATCH_MATMUL" and not node.options.get("adj_y")


def _matches(graph: Graph, i: int, op: str, pattern: str) -> bool:
    """Whether a pattern matches the name of a weight, or the operator that reads it."""
    return any(fnmatchcase(name, pattern) for name in (graph.tensors[i].name, op))
