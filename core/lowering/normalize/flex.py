"""TensorFlow's operators (Flex) that compute what operators of TFLite compute.

Converters leave an operator to TensorFlow (SELECT_TF_OPS) if TFLite lacks a form of it, such as
convolutions with channels first. Most of these have the same formula as an operator of TFLite, with
filters (KH, KW, C, O) and attributes that a NodeDef in the custom options holds.

Source: TensorFlow's operators of the same names; node_def.proto and attr_value.proto.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from odt.core.formats.flatbuffer.operator_options import default_options
from odt.core.formats.protobuf import BYTES, ProtobufError, Span, read_fields, read_packed
from odt.core.model.graph import ABSENT, FLEX, Graph, Node, Tensor
from odt.core.model.model import Model
from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array, TensorSpec

# Operators with one formula, and options that are the schema's defaults.
SAME = {
    "Add": "ADD",
    "AddV2": "ADD",
    "Sub": "SUB",
    "Mul": "MUL",
    "RealDiv": "DIV",
    "Maximum": "MAXIMUM",
    "Minimum": "MINIMUM",
    "Pow": "POW",
    "FloorMod": "FLOOR_MOD",
    "Relu": "RELU",
    "Relu6": "RELU6",
    "Elu": "ELU",
    "Sigmoid": "LOGISTIC",
    "Tanh": "TANH",
    "Exp": "EXP",
    "Log": "LOG",
    "Sqrt": "SQRT",
    "Rsqrt": "RSQRT",
    "Square": "SQUARE",
    "Neg": "NEG",
    "Abs": "ABS",
    "Sin": "SIN",
    "Cos": "COS",
    "Cast": "CAST",
    "Reshape": "RESHAPE",
    "Transpose": "TRANSPOSE",
    "ExpandDims": "EXPAND_DIMS",
    "Pad": "PAD",
    "SpaceToBatchND": "SPACE_TO_BATCH_ND",
    "BatchToSpaceND": "BATCH_TO_SPACE_ND",
}
WINDOWED = {"Conv2D": "CONV_2D", "MaxPool": "MAX_POOL_2D", "AvgPool": "AVERAGE_POOL_2D"}
INPUTS = {"Conv2D": 2, "MaxPool": 1, "AvgPool": 1, "BiasAdd": 2}
PADDINGS = {b"SAME": 0, b"VALID": 1}  # enumeration Padding of the schema
# Permutations of channels, and from filters (KH, KW, C, O) to (O, KH, KW, C).
FIRST_TO_LAST, LAST_TO_FIRST, FILTERS = (0, 2, 3, 1), (0, 3, 1, 2), (3, 0, 1, 2)
# Numbers of fields, of NodeDef: operator and attributes; of an entry of its attributes: key and
# value; of an AttrValue: list; of a list: integers.
OP, ATTR, KEY, VALUE, LIST, INTEGERS = 2, 5, 1, 2, 1, 3
Attribute: TypeAlias = bytes | int | tuple[int, ...]
Append: TypeAlias = Callable[[Tensor], int]


def as_builtin(node: Node) -> Node:
    """Returns the operator of TFLite with the same inputs and outputs; others unchanged."""
    op = SAME.get(node.op.removeprefix(FLEX)) if node.op.startswith(FLEX) else None
    return node if op is None else replace(node, op=op, options=default_options(op))


def with_builtins(model: Model) -> Model:
    """Returns the model with operators of TFLite instead of TensorFlow's where they exist."""
    graph = model.graph
    tensors = list(graph.tensors)

    def append(tensor: Tensor) -> int:
        tensors.append(tensor)
        return len(tensors) - 1

    nodes = [n for node in graph.nodes for n in _expand(as_builtin(node), graph, append)]
    return replace(model, graph=replace(graph, tensors=tuple(tensors), nodes=tuple(nodes)))


def _expand(node: Node, graph: Graph, append: Append) -> list[Node]:
    """Replaces an operator with several of TFLite; returns it alone if that is impossible."""
    name = node.op.removeprefix(FLEX)
    arity = INPUTS.get(name) if node.op.startswith(FLEX) else None
    if arity != len(node.inputs) or len(node.outputs) != 1 or ABSENT in node.inputs:
        return [node]
    attributes = dict(read_attributes(node.options["custom_options"], name))
    expansion = _Expansion(node, graph, append)
    form = attributes.get("data_format", b"NHWC")
    if form not in (b"NHWC", b"NCHW"):
        return [node]
    channels_first = form == b"NCHW"
    if name == "BiasAdd":
        return expansion.bias_add(channels_first)
    options = _window(name, attributes, channels_first)
    if options is None:
        return [node]
    return expansion.on_windows(WINDOWED[name], options, channels_first)


def _window(
    name: str, attributes: Mapping[str, Attribute], channels_first: bool
) -> dict[str, Any] | None:
    """Returns the options of a convolution or pooling; None for those TFLite lacks."""
    h, w, channels = (2, 3, 1) if channels_first else (1, 2, 3)  # axes
    padding = attributes.get("padding")
    if padding not in PADDINGS:
        return None
    options = {"padding": PADDINGS[padding]}
    sizes = (
        ("strides", "stride_h", "stride_w"),
        ("dilations", "dilation_h_factor", "dilation_w_factor"),
    )
    if name != "Conv2D":
        sizes = (sizes[0], ("ksize", "filter_height", "filter_width"))
    for key, *fields in sizes:
        values = attributes.get(key, (1, 1, 1, 1))
        if not isinstance(values, tuple) or len(values) != 4:
            return None
        if values[0] != 1 or values[channels] != 1:
            return None
        options |= {fields[0]: values[h], fields[1]: values[w]}
    return options


@dataclass(frozen=True, slots=True)
class _Expansion:
    """Operators of TFLite in place of one of TensorFlow; `append` adds a tensor."""

    node: Node
    graph: Graph
    append: Append

    def bias_add(self, channels_first: bool) -> list[Node]:
        """An ADD, of a bias (C, 1, 1) with channels first."""
        x, bias = self.node.inputs
        options = default_options("ADD")
        if not channels_first:
            return [replace(self.node, op="ADD", options=options)]
        column = self._tensor(bias)
        shape = self._constant(np.array((-1, 1, 1), np.int32))
        reshape = Node("RESHAPE", (bias, shape), (column,), {}, self.node.origin)
        return [reshape, replace(self.node, op="ADD", inputs=(x, column), options=options)]

    def on_windows(self, op: str, options: Mapping[str, Any], channels_first: bool) -> list[Node]:
        """An operator on windows, with channels last and filters (O, KH, KW, C)."""
        (y,), (x, *filters) = self.node.outputs, self.node.inputs
        nodes = []
        if channels_first:
            nodes.append(self._transpose(x, FIRST_TO_LAST, self._tensor(x)))
            x = nodes[-1].outputs[0]
        inputs = [x]
        for w in filters:
            nodes.append(self._transpose(w, FILTERS, self._tensor(w)))
            inputs += [nodes[-1].outputs[0], ABSENT]
        result = self._tensor(y) if channels_first else y
        all_options = {**default_options(op), **options}
        nodes.append(Node(op, tuple(inputs), (result,), all_options, self.node.origin))
        if channels_first:
            nodes.append(self._transpose(result, LAST_TO_FIRST, y))
        return nodes

    def _transpose(self, x: int, order: tuple[int, ...], y: int) -> Node:
        axes = self._constant(np.array(order, np.int32))
        return Node("TRANSPOSE", (x, axes), (y,), {}, self.node.origin)

    def _tensor(self, like: int) -> int:
        tensor = self.graph.tensors[like]
        spec = TensorSpec((), tensor.spec.dtype)
        return self.append(Tensor(f"{tensor.name}/{self.node.origin}", spec))

    def _constant(self, values: Array) -> int:
        spec = TensorSpec(values.shape, values.dtype)
        return self.append(Tensor(f"axes of {self.node.origin}", spec, values.shape, values))


def read_attributes(options: bytes, name: str) -> Iterator[tuple[str, Attribute]]:
    """Yields the attributes of an operator of TensorFlow: numbers, text and lists of numbers.

    Args:
        options: custom options: a FlexBuffer with the name and the bytes of a NodeDef.
        name: the operator's name, with which the NodeDef begins.
    """
    begin = bytes((OP << 3 | BYTES, len(name))) + name.encode()
    at = options.find(begin)
    for field, value in _fields(options[at:] if at >= 0 else b""):
        if field != ATTR or not isinstance(value, bytes):
            continue
        entry = dict(_fields(value))
        key, stored = entry.get(KEY), entry.get(VALUE)
        if isinstance(key, bytes) and isinstance(stored, bytes):
            for kind, content in _fields(stored):
                numbers = _list(content) if kind == LIST and isinstance(content, bytes) else content
                yield key.decode("utf-8", "replace"), numbers


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Yields the numbers and bytes of a message up to its end or its first fault."""
    with suppress(ProtobufError):
        for number, wire, value in read_fields(memoryview(data), Span(0, len(data))):
            if isinstance(value, int):
                yield number, value
            elif wire == BYTES:
                yield number, data[value.offset : value.end]


def _list(content: bytes) -> tuple[int, ...]:
    """Returns the integers of a list; none for lists of other values."""
    packed = dict(_fields(content)).get(INTEGERS)
    if not isinstance(packed, bytes):
        return ()
    try:
        return tuple(read_packed(memoryview(packed), Span(0, len(packed))).tolist())
    except ProtobufError:
        return ()
