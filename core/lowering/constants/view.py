"""A graph for rules about constants: producers, readers, layers, and views of tensors."""

from collections.abc import Iterator

from odt.core.model.graph import ABSENT, Graph, Node
from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array


@dataclass(frozen=True, slots=True)
class Layer:
    """Positions of the inputs of a layer: data, filter and bias."""

    x: int
    w: int
    b: int


LAYERS = {
    "FULLY_CONNECTED": Layer(0, 1, 2),
    "CONV_2D": Layer(0, 1, 2),
    "DEPTHWISE_CONV_2D": Layer(0, 1, 2),
    "CONV_3D": Layer(0, 1, 2),
    "TRANSPOSE_CONV": Layer(2, 1, 3),
    "CONV_3D_TRANSPOSE": Layer(2, 1, 3),
}
PRODUCTS = (*LAYERS, "BATCH_MATMUL")
RECURRENT = ("SEQUENCE_LSTM", "SEQUENCE_RNN", "LSTM", "RNN", "SVDF")  # ends of operators' names
ROUNDING = ("FAKE_QUANT", "QUANTIZE", "DEQUANTIZE", "CAST")
# Operators that move values or leave some out, and the position of these values.
VIEWS = {
    **dict.fromkeys(ROUNDING, 0),
    **dict.fromkeys(("RESHAPE", "TRANSPOSE", "EXPAND_DIMS", "SQUEEZE", "TILE", "BROADCAST_TO"), 0),
    **dict.fromkeys(("SLICE", "STRIDED_SLICE", "SPLIT_V", "UNPACK", "GATHER", "GATHER_ND"), 0),
    **dict.fromkeys(("PAD", "PADV2", "MIRROR_PAD", "REVERSE_V2", "REVERSE_SEQUENCE"), 0),
    **dict.fromkeys(("SPACE_TO_DEPTH", "DEPTH_TO_SPACE"), 0),
    **dict.fromkeys(("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"), 0),
    "SPLIT": 1,
}
CUTS = ("SLICE", "STRIDED_SLICE", "SPLIT", "SPLIT_V", "UNPACK", "GATHER", "GATHER_ND")
JOINS = ("CONCATENATION", "PACK")
SCALES, SHIFTS = ("MUL", "DIV"), ("ADD", "SUB")
BINARY = (*SCALES, *SHIFTS, "POW", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE")


class View:
    """A graph with the facts that rules about constants need.

    Attributes:
        graph: as in the file, with float32 weights.
        nodes: its nodes that have outputs.
        makers: tensor → node that computes it.
        readers: tensor → nodes that read it.
        dependent: tensors that depend on an input or a variable.
        constant_reasons: constants that are known not to train, with the reason.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self.tensors = graph, graph.tensors
        self.nodes = tuple(node for node in graph.nodes if node.outputs)
        self.makers = {i: node for node in self.nodes for i in node.outputs}
        self.readers: dict[int, list[Node]] = {}
        for node in self.nodes:
            for i in dict.fromkeys(node.inputs):
                self.readers.setdefault(i, []).append(node)
        self.constant_reasons: dict[int, str] = {}
        self.dependent = {i for i, t in enumerate(graph.tensors) if t.variable and t.data is None}
        self.dependent.update(graph.inputs)
        for node in self.nodes:
            if not self.dependent.isdisjoint(node.inputs):
                self.dependent.update(node.outputs)

    def is_real(self, i: int) -> bool:
        """Whether a tensor is a constant of real numbers with axes, which could train."""
        if i == ABSENT:
            return False
        t = self.tensors[i]
        return t.data is not None and t.spec.dtype.kind == "f" and bool(t.spec.shape)

    def is_weight(self, i: int) -> bool:
        """Whether a tensor is a constant that would train."""
        if not self.is_real(i) or i in self.constant_reasons:
            return False
        return not (self.tensors[i].variable or self.tensors[i].formula)

    def values(self, i: int) -> Array:
        """Real numbers of a constant."""
        values = self.tensors[i].real
        assert values is not None
        return values

    def uniform(self, i: int) -> float | None:
        """The only value of a constant with one or more entries; None if it has several."""
        values = self.values(i)
        if not values.size:
            return None
        first = values.reshape(-1)[0] if values.flags.c_contiguous else values.flat[0]
        return float(first) if bool((values == first).all()) else None

    def is_zero(self, i: int) -> bool:
        """Whether a tensor is a constant of zeros."""
        if not self.is_real(i) or not self.tensors[i].spec.size or self.tensors[i].decoder:
            return False
        return not self.values(i).flat[0] and self.uniform(i) == 0

    def axes(self, i: int) -> list[int]:
        """The axes of a tensor that are longer than 1, counted from the last: 0 is the last."""
        shape = self.tensors[i].spec.shape
        return [k for k, n in enumerate(reversed(shape)) if n > 1]

    def is_vector(self, i: int) -> bool:
        """Whether a constant has at most one axis that is longer than 1."""
        return len(self.axes(i)) <= 1

    def source(self, i: int) -> int:
        """Returns the constant of which a tensor is a view, or the tensor itself."""
        start = i
        while i not in self.constant_reasons and (node := self.makers.get(i)) is not None:
            at = VIEWS.get(node.op)
            others = [k for n, k in enumerate(node.inputs) if n != at and k != ABSENT]
            if at is None or len(node.inputs) <= at:
                return start
            if any(self.tensors[k].data is None for k in others):
                return start
            i = node.inputs[at]
        return i if self.tensors[i].data is not None else start

    def behind(self, i: int) -> int:
        """Returns the tensor of which a tensor is a view, through operators that move values."""
        while (node := self.makers.get(i)) is not None:
            at = VIEWS.get(node.op)
            if at is None or len(node.inputs) <= at:
                break
            i = node.inputs[at]
        return i

    def maker(self, i: int) -> str:
        """Returns the operator that computes the values of a tensor; empty for inputs."""
        node = self.makers.get(self.behind(i))
        return node.op if node is not None else ""

    def layer(self, node: Node) -> Layer | None:
        """Returns the positions of data, filter and bias of a product with a constant filter."""
        layer = LAYERS.get(node.op)
        if node.op == "BATCH_MATMUL" and len(node.inputs) == 2:
            first, second = (self.is_real(self.source(i)) for i in node.inputs)
            if second:
                layer = Layer(0, 1, 2)
            elif first:
                layer = Layer(1, 0, 2)
        if layer is None or len(node.inputs) <= max(layer.x, layer.w):
            return None
        return layer if self.is_real(self.source(node.inputs[layer.w])) else None

    def bias(self, node: Node) -> int:
        """Returns the constant that is the bias of a layer; ABSENT without one."""
        layer = LAYERS.get(node.op)
        if layer is None or len(node.inputs) <= layer.b or node.inputs[layer.b] == ABSENT:
            return ABSENT
        i = self.source(node.inputs[layer.b])
        return i if self.is_real(i) else ABSENT

    def operand(self, node: Node) -> tuple[int, int] | None:
        """Returns tensor and constant of a BINARY operator with a constant of real numbers."""
        if node.op not in BINARY or len(node.inputs) != 2 or ABSENT in node.inputs:
            return None
        a, b = node.inputs
        for x, c in ((a, self.source(b)), (b, self.source(a))):
            if self.is_real(c) and self.tensors[self.source(x)].data is None:
                return x, c
        return None

    def has_weights(self, node: Node) -> bool:
        """Whether a node is a layer with weights that would train, other than a scale or shift."""
        if node.op.endswith(RECURRENT):
            return any(self.is_weight(i) for i in node.inputs)
        if node.op in ("GATHER", "EMBEDDING_LOOKUP"):
            k = int(node.op == "EMBEDDING_LOOKUP")
            return len(node.inputs) > k and self.is_weight(self.source(node.inputs[k]))
        layer = self.layer(node) or LAYERS.get(node.op)
        if layer is None or len(node.inputs) <= layer.w:
            return False
        i = self.source(node.inputs[layer.w])
        return self.is_weight(i) if self.tensors[i].data is not None else i not in self.dependent

    def users(self, i: int) -> Iterator[Node]:
        """Yields the nodes that read a tensor, also through operators that move values."""
        rest, seen = [i], {i}
        while rest:
            for node in self.readers.get(rest.pop(), ()):
                at = VIEWS.get(node.op)
                if at is None:
                    yield node
                elif len(node.inputs) > at and node.inputs[at] in seen:
                    new = [k for k in node.outputs if k not in seen]
                    seen.update(new)
                    rest += new
