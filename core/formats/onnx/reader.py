"""Parses and checks ONNX models.

The graph has the nodes of the file, as `ONNX:Conv`, with their attributes; core/lowering/onnx makes
operators of them that odt trains. Nodes of kind Constant are constants. Every tensor has a name of
its own in ONNX, so a tied weight is one tensor that several nodes read.
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from odt.core.formats.onnx.messages import GRAPH as GRAPH_FIELDS
from odt.core.formats.onnx.messages import MODEL
from odt.core.formats.onnx.tensors import (
    ConstantValues,
    ExternalFiles,
    checked_shape,
    checked_spec,
    dtype_of,
    read_tensor,
)
from odt.core.formats.protobuf import (
    BYTES,
    VARINT,
    Message,
    MessageReader,
    ProtobufError,
    Span,
    read_fields,
    read_varint,
)
from odt.core.model.graph import ABSENT, MAX_NAME, Body, Graph, Node, Tensor
from odt.core.model.model import ONNX, ExternalSpan, Model
from odt.core.model.onnx import PREFIX, OnnxNode, kind_of
from odt.errors import ModelError, OptionError, one_line
from odt.kernels.rows.opdef import Array, TensorSpec

FIRST_OPSET, LAST_OPSET = 6, 28
DOMAIN = ("", "ai.onnx")  # both names of ONNX's own operators
MAX_VERSIONS = 100  # no IR version is larger; other formats begin with larger numbers
MAX_BODIES = 16  # branches within branches
MAX_NUMBERS = 40  # no field of a model has a larger number; Core ML has types from 200 on
IR_VERSION, GRAPH = 1, 7  # fields of a model
GRAPH_TAG = GRAPH << 3 | BYTES
UNKNOWN = TensorSpec((), np.dtype(np.float32))  # of activations, before they are inferred
# AttributeProto.type
FLOAT, INT, STRING, TENSOR, GRAPH_VALUE, FLOATS, INTS, STRINGS = range(1, 9)
FIELDS = {
    "f": FLOAT,
    "i": INT,
    "s": STRING,
    "t": TENSOR,
    "g": GRAPH_VALUE,
    "floats": FLOATS,
    "ints": INTS,
    "strings": STRINGS,
}


def is_onnx(data: memoryview) -> bool:
    """Whether a file begins like an ONNX model, by its IR version and a graph."""
    has_version = False
    try:
        for number, wire, value in read_fields(data, Span(0, len(data))):
            if not has_version:
                if (number, wire) != (IR_VERSION, VARINT) or isinstance(value, Span):
                    return False
                if not 0 < value < MAX_VERSIONS:
                    return False
                has_version = True
            if number > MAX_NUMBERS:
                return False
            if number == GRAPH and isinstance(value, Span):
                return True
    except ProtobufError:
        return has_version and _ends_in_graph(data)
    return False


def _ends_in_graph(data: memoryview) -> bool:
    """Whether a file that was cut ends within the graph; numbers and bytes are before it."""
    at = 0
    try:
        while at < len(data):
            tag, at = read_varint(data, at, len(data))
            if tag == GRAPH_TAG:
                return True
            size, at = read_varint(data, at, len(data))
            if tag & 7 != VARINT:
                at += size
    except ProtobufError:
        pass
    return False


def parse_onnx(
    data: memoryview, path: str, signature: str | None = None, subgraph: int = 0
) -> Model:
    """Parses and checks a model.

    Args:
        data: all bytes of the file.
        path: where the file is, for messages and for files with external data.
        signature: must be None, because ONNX has no signatures.
        subgraph: must be 0.

    Raises:
        ModelError: if the file breaks a rule of the format.
        OptionError: if a signature or another subgraph is selected.
    """
    if signature is not None or subgraph:
        got = signature if signature is not None else subgraph
        raise OptionError("signature", f"must be none for {path}, since ONNX has none", got)
    parser = _Parser(data, path)
    try:
        return parser.parse()
    except ProtobufError as e:
        raise ModelError(f"{path}: {parser.where}: {e}") from e
    except ModelError as e:
        raise ModelError(str(e) if str(e).startswith(path) else f"{path}: {e}") from e


class _Parser:
    """Builds the graph of a model.

    Attributes:
        where: the part of the file that is being read, for messages.
        tensors: tensors so far.
        names: name → tensor; of a branch, also the names of what contains it.
        opsets: domain → version.
        spans, external: places of constants, by buffer.
    """

    def __init__(self, data: memoryview, path: str) -> None:
        self.data, self.path = data, path
        self.reader = MessageReader(data)
        self.files = ExternalFiles(path)
        self.where = "model"
        self.tensors: list[Tensor] = []
        self.names: ChainMap[str, int] = ChainMap()
        self.opsets: Mapping[str, int] = {}
        self.spans: list[tuple[int, int]] = [(0, 0)]
        self.external: dict[int, ExternalSpan] = {}

    def parse(self) -> Model:
        """Returns the model."""
        model = self.reader.read(Span(0, len(self.data)), MODEL)
        self.opsets = self._opsets(model)
        graph = model.get("graph")
        if graph is None:
            raise ProtobufError("there must be a graph, but got none")
        self._initializers(graph)
        added = [self._input(value) for value in graph.get("input", [])]
        inputs = [i for i in added if i != ABSENT]
        declared = {v.get("name", ""): v for v in graph.get("output", [])}
        nodes = [*self._nodes(graph, declared)]
        outputs = []
        for name in declared:
            self.where = f'output "{one_line(name, MAX_NAME)}"'
            outputs.append(self._tensor(name))
        self.where = "graph"
        producer = " ".join(
            text for key in ("producer_name", "producer_version") if (text := model.get(key))
        )
        return Model(
            path=self.path,
            format=ONNX,
            data=self.data,
            graph=Graph(
                tuple(self.tensors), tuple(nodes), tuple(inputs), tuple(outputs), self.path
            ),
            metadata={},
            spans=tuple(self.spans),
            quantization={},
            sparsity={},
            signatures=(),
            subgraphs=1,
            description=f"made by {producer}" if producer else "",
            version=model.get("ir_version", 0),
            external=self.external,
        )

    def _initializers(self, graph: Message) -> None:
        """Adds the constants of a graph."""
        if graph.get("sparse_initializer"):
            raise ProtobufError("initializers must be dense, but got sparse ones")
        for tensor in graph.get("initializer", []):
            self.where = f'initializer "{one_line(tensor.get("name", ""), MAX_NAME)}"'
            self._constant(tensor.get("name", ""), read_tensor(self.reader, tensor, self.files))

    def _nodes(
        self, graph: Message, declared: Mapping[str, Message], origin: int | None = None
    ) -> Iterator[Node]:
        """Yields the nodes of a graph; those of a branch have the position of its node."""
        for k, message in enumerate(graph.get("node", [])):
            node = self._node(k if origin is None else origin, message, declared)
            if node is not None:
                yield node

    def _body(self, span: Span, origin: int) -> Body:
        """Returns a branch of the node at `origin`; its names are known only within it."""
        if len(self.names.maps) > MAX_BODIES:
            raise ProtobufError(f"branches must be at most {MAX_BODIES} deep, but got more")
        graph = self.reader.read(span, GRAPH_FIELDS)
        if graph.get("input"):
            raise ProtobufError("a branch must have no inputs, but got some")
        self.names = self.names.new_child()
        self._initializers(graph)
        nodes = tuple(self._nodes(graph, {}, origin))
        outputs = tuple(self._tensor(v.get("name", "")) for v in graph.get("output", []))
        self.names = self.names.parents
        return Body(nodes, outputs)

    def _opsets(self, model: Message) -> Mapping[str, int]:
        """Returns domain → version; that of ONNX's own operators is one that odt knows."""
        opsets: dict[str, int] = {}
        for entry in model.get("opset_import", []):
            domain = entry.get("domain", "")
            opsets["" if domain in DOMAIN else domain] = entry.get("version", 0)
        version = opsets.get("", 0)
        if "" in opsets and not FIRST_OPSET <= version <= LAST_OPSET:
            raise ProtobufError(
                f"the opset must be {FIRST_OPSET} to {LAST_OPSET}, but got {version}. Convert it "
                "with onnx.version_converter."
            )
        if not opsets:
            raise ProtobufError("the model must name its opset, but got none")
        return opsets

    def _constant(self, name: str, stored: ConstantValues) -> int:
        """Adds a constant."""
        buffer = len(self.spans)
        span = stored.span
        self.spans.append((span.offset, span.size) if span is not None else (0, 0))
        if stored.external is not None:
            self.external[buffer] = stored.external
        values = stored.values
        values.flags.writeable = False
        spec = TensorSpec(values.shape, values.dtype)
        return self._add(name, Tensor(name, spec, values.shape, values, buffer))

    def _add(self, name: str, tensor: Tensor) -> int:
        """Adds a tensor with a name of its own, or without one; returns its index."""
        if name and name in self.names:
            raise ProtobufError(
                f'a name must stand for one tensor, but got "{one_line(name, MAX_NAME)}" twice'
            )
        self.tensors.append(tensor)
        if name:
            self.names[name] = len(self.tensors) - 1
        return len(self.tensors) - 1

    def _input(self, value: Message) -> int:
        """Adds an input; ABSENT for an initializer, which older files list among the inputs."""
        name = value.get("name", "")
        self.where = f'input "{one_line(name, MAX_NAME)}"'
        if name in self.names:
            return ABSENT
        signature, spec = self._declared(value)
        return self._add(name, Tensor(name, spec, signature, symbols=_symbols(value)))

    def _declared(self, value: Message) -> tuple[tuple[int, ...], TensorSpec]:
        """Returns the declared shape with −1 for open axes, and the spec with 1 for them."""
        kind = value.get("type", {})
        tensor = kind.get("tensor_type")
        if tensor is None:
            name = next(iter(kind), "nothing").removesuffix("_type")
            raise ProtobufError(f"its type must be a tensor, but got {name}")
        dims = tensor.get("shape", {}).get("dim", [])
        sizes = [d.get("dim_value", -1) if not d.get("dim_param") else -1 for d in dims]
        signature = tuple(n if n > 0 else -1 for n in sizes)
        shape = checked_shape([max(n, 1) for n in signature], "its shape")
        return signature, checked_spec(shape, dtype_of(tensor.get("elem_type", 0)))

    def _tensor(self, name: str) -> int:
        """Returns the tensor with a name."""
        if name not in self.names:
            raise ProtobufError(
                "what it names must be an input, an initializer or an output of an earlier node, "
                f'but got "{one_line(name, MAX_NAME)}"'
            )
        return self.names[name]

    def _node(self, k: int, message: Message, declared: Mapping[str, Message]) -> Node | None:
        """Returns a node and adds its outputs; None for a constant, which it adds."""
        kind, domain = message.get("op_type", ""), message.get("domain", "")
        domain = "" if domain in DOMAIN else domain
        op = f"{PREFIX}{kind_of(kind, domain)}"
        self.where = f"node {k} ({one_line(op, MAX_NAME)})"
        has_bodies = kind == "If" and not domain
        stored = [self._attribute(a, k, has_bodies) for a in message.get("attribute", [])]
        self.where = f"node {k} ({one_line(op, MAX_NAME)})"
        names = message.get("output", [])
        if kind == "Constant" and not domain and len(names) == 1 and len(stored) == 1:
            ((_, value),) = stored
            constant = _constant_of(value)
            if constant is not None:
                self._constant(names[0], constant)
                return None
        attributes = {n: v.values if isinstance(v, ConstantValues) else v for n, v in stored}
        inputs = tuple(self._tensor(name) if name else ABSENT for name in message.get("input", []))
        outputs = []
        for name in names:
            signature: tuple[int, ...] = ()
            spec = UNKNOWN
            if "tensor_type" in declared.get(name, {}).get("type", {}):
                signature, spec = self._declared(declared[name])
            outputs.append(self._add(name, Tensor(name, spec, signature)))
        source = OnnxNode(
            message.get("name", ""), kind, domain, self.opsets.get(domain, 0), attributes
        )
        return Node(op, inputs, tuple(outputs), {"onnx": source}, k)

    def _attribute(self, message: Message, origin: int, has_bodies: bool) -> tuple[str, Any]:
        """Returns name and value of an attribute: a number, text, tuple of them, values, or a Body.

        Args:
            message: the attribute.
            origin: position of its node.
            has_bodies: whether the node runs graphs.
        """
        name, kind = message.get("name", ""), message.get("type", 0)
        if not kind:  # files of IR versions 1 and 2 leave it out
            kind = next((k for field, k in FIELDS.items() if field in message), 0)
        value: Any = None  # types, and graphs of operators that odt does not train
        if kind == TENSOR:
            value = read_tensor(self.reader, message.get("t", {}), self.files)
        elif kind == FLOAT:
            value = self._floats([message["f"]])[0] if "f" in message else 0.0
        elif kind == FLOATS:
            value = self._floats(message.get("floats", []))
        elif kind == STRING:
            value = self._text(message["s"]) if "s" in message else ""
        elif kind == STRINGS:
            value = tuple(map(self._text, message.get("strings", [])))
        elif kind == INT:
            value = message.get("i", 0)
        elif kind == INTS:
            numbers = self.reader.numbers(message.get("ints", []))
            self.reader.count(len(numbers))
            value = tuple(numbers.tolist())
        elif kind == GRAPH_VALUE and has_bodies and "g" in message:
            value = self._body(message["g"], origin)
        return name, value

    def _floats(self, spans: list[Span]) -> tuple[float, ...]:
        """Returns the numbers whose bytes are at some places, one after the other."""
        data = b"".join(bytes(self.data[s.offset : s.end]) for s in spans)
        return tuple(np.frombuffer(data, "<f4").tolist())

    def _text(self, span: Span) -> str:
        return str(self.data[span.offset : span.end], "utf-8", "replace")


def _symbols(value: Message) -> tuple[str, ...]:
    """Returns the names of the axes of an input; empty if none has one."""
    shape = value.get("type", {}).get("tensor_type", {}).get("shape", {})
    names = tuple(axis.get("dim_param", "") for axis in shape.get("dim", []))
    return names if any(names) else ()


def _constant_of(value: Any) -> ConstantValues | None:
    """Returns the value of a Constant node; None for text and sparse tensors."""
    if isinstance(value, ConstantValues):
        return value
    several = isinstance(value, tuple)
    first = (value[0] if value else 0) if several else value
    if isinstance(first, bool) or not isinstance(first, int | float):
        return None
    values: Array = np.array(value, np.int64 if isinstance(first, int) else np.float32)
    return ConstantValues(values)
