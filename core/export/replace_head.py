"""Replaces the last layer of a model, for transfer learning.

The operators that compute the features stay; those that only the old layer needed are removed,
together with signatures and metadata, which describe the old outputs.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import flatbuffers
import numpy as np
from circle_schema.v0_10 import circle as schema

from odt.core.lowering.lower import LoweredGraphs
from odt.core.lowering.lowered_model import lower_model
from odt.core.model.graph import Graph, Tensor
from odt.core.model.reader import FORMATS, Model, parse_model
from odt.errors import ModelError, OptionError, UnsupportedError
from odt.kernels.opdef import Array

MOST_BYTES = 2**31 - 2**24  # of a flatbuffer, with room for its tables
ALIGNMENT = 16  # of a buffer's data, as the schema demands
FLOAT32 = np.dtype(np.float32)
ELEMENTWISE = ("ADD", "SUB", "MUL", "DIV")  # their constants are a bias or a scale, no layer
# What circle-schema's classes raise for bytes that the reader had no need to look at.
BROKEN = (struct.error, IndexError, TypeError, ValueError, AttributeError, OverflowError)


def replace_head(model: Model, classes: int, after: int | None = None, seed: int = 0) -> Model:
    """Puts FULLY_CONNECTED and SOFTMAX behind a model's features; the format stays.

    Features of more than two axes are averaged over the axes between the first and the last.

    Args:
        model: the model.
        classes: number of classes of the new output, which is the only one.
        after: position of the operator that computes the features; None for the input of the last
            layer with weights.
        seed: seed of the new weights, which are drawn as in He et al. (variance 2 / features); the
            bias is 0.

    Raises:
        ModelError: if the model has no features, or the file is damaged.
        OptionError: if there is no operator at the position.
        UnsupportedError: if the features need unsupported operators.
        LostFileError: if the model's file became shorter.
    """
    graph = lower_model(model).graph
    features = _features(model, graph, after)
    kept = _needed(model.graph, features)
    shape = _shape(graph, features, kept)
    if len(model.data) + classes * shape[-1] * FLOAT32.itemsize > MOST_BYTES:
        raise UnsupportedError(
            f"{model.path}: a model with a new head must be below {MOST_BYTES} bytes, but got "
            f"{len(model.data)} bytes for {classes} classes of {shape[-1]} features"
        )
    try:
        packed = _packed(model, features, kept, shape, np.random.default_rng(seed), classes)
    except BROKEN as e:
        raise ModelError(f"{model.path}: must be a sound flatbuffer, but got: {e}") from e
    model.check_file()
    return parse_model(memoryview(packed), model.path)


def _features(model: Model, graph: Graph, after: int | None) -> int:
    """The tensor of the features, which the new layer reads.

    Args:
        model: the model.
        graph: its graph with float32 weights.
        after: position of the operator that computes the features; None to choose.
    """
    if after is not None:
        outputs = {n.origin: n.outputs[0] for n in model.graph.nodes}
        if after not in outputs:
            raise OptionError(
                f"--after: must be below {len(outputs)}, the model's operators, but got {after}."
            )
        return outputs[after]
    for node in reversed(graph.nodes):
        inputs = [i for i in node.inputs if i >= 0]
        data = [i for i in inputs if graph.tensors[i].data is None]
        if (
            data
            and node.op not in ELEMENTWISE
            and any(_is_layers(graph.tensors[i]) for i in inputs)
        ):
            return data[0]
    raise ModelError(
        f"{model.path}: must have a layer with weights, but got none. Say with --after which "
        "operator gives the features."
    )


def _is_layers(tensor: Tensor) -> bool:
    """Whether a tensor is a layer's weight matrix or filter."""
    return tensor.data is not None and tensor.spec.dtype.kind == "f" and len(tensor.spec.shape) > 1


def _shape(graph: Graph, features: int, kept: Sequence[int]) -> tuple[int, ...]:
    """The shape of the features, as inferred from the operators before them."""
    spec = graph.tensors[features].spec
    nodes = tuple(n for n in graph.nodes if n.origin in kept)
    part = LoweredGraphs(replace(graph, nodes=nodes, outputs=(features,)))
    batch = part.file_batch
    is_constant = graph.tensors[features].data is not None
    if not is_constant:
        lowered = part.at_file_batch
        spec = lowered.tensors[lowered.outputs[0]].spec
    rows = spec.dtype == FLOAT32 and len(spec.shape) > 1 and spec.shape[0] == batch
    if is_constant or not rows or not spec.size:
        raise ModelError(
            f"{graph.name}: features must be float32 of shape ({batch}, …, features), computed "
            f"from an input, but got {graph.label(features)}, {spec}. Choose other ones with "
            "--after; odt inspect counts the operators."
        )
    return spec.shape


def _needed(graph: Graph, features: int) -> list[int]:
    """Positions in the file of the operators that a tensor depends on."""
    makers = {i: node for node in graph.nodes for i in node.outputs}
    found: set[int] = set()
    rest = [features]
    while rest:
        node = makers.get(rest.pop())
        if node is not None and node.origin not in found:
            found.add(node.origin)
            rest += node.inputs
    return sorted(found)


class _Buffer(schema.Buffer.BufferT):  # type: ignore[misc]  # circle-schema has no types
    """A buffer whose data is aligned."""

    def __init__(self, data: Array) -> None:
        super().__init__()
        self.data = data if len(data) else None

    def Pack(self, builder: Any) -> Any:
        if self.data is None:
            return super().Pack(builder)
        builder.StartVector(1, len(self.data), ALIGNMENT)
        builder.head -= len(self.data)
        builder.Bytes[builder.head : builder.head + len(self.data)] = self.data.tobytes()
        data = builder.EndVector()
        schema.Buffer.BufferStart(builder)
        schema.Buffer.BufferAddData(builder, data)
        return schema.Buffer.BufferEnd(builder)


def _packed(
    model: Model,
    features: int,
    kept: Sequence[int],
    shape: Sequence[int],
    rng: np.random.Generator,
    classes: int,
) -> bytes:
    """Serialises the model of the kept operators and the new layer."""
    old = schema.Model.ModelT.InitFromPackedBuf(bytes(model.data))
    graph = old.subgraphs[0]
    old.subgraphs = [graph]  # the others are for control flow, which odt does not compute
    operators = [graph.operators[k] for k in kept]
    head = _Head(model, old, graph)
    head.keep(operators, features)
    graph.operators = operators
    graph.outputs = [head.add(head.number[features], shape, rng, classes)]
    old.signatureDefs = old.metadata = old.metadataBuffer = None
    builder = flatbuffers.Builder(1024)
    identifier = next(i for i, name in FORMATS.items() if name == model.format)
    builder.Finish(old.Pack(builder), identifier)
    return bytes(builder.Output())


class _Head:
    """Removes unused entries from a model's tables and adds a new layer.

    Attributes:
        number: old number of each kept tensor → new number.
    """

    def __init__(self, source: Model, model: Any, graph: Any) -> None:
        self.source, self.model, self.graph = source, model, graph

    def keep(self, operators: Iterable[Any], features: int) -> None:
        """Keeps some operators and renumbers tensors, buffers and operator codes."""
        graph, model = self.graph, self.model
        lists = [a for o in operators for a in (o.inputs, o.outputs, o.intermediates)]
        used = {features, *(int(i) for a in lists if a is not None for i in a)} - {-1}
        self.number = {i: k for k, i in enumerate(sorted(used))} | {-1: -1}
        graph.tensors = [graph.tensors[i] for i in sorted(used)]
        graph.inputs = [self.number[i] for i in graph.inputs if i in used]
        buffers = sorted({0, *(t.buffer for t in graph.tensors)})
        codes = sorted({o.opcodeIndex for o in operators})
        for tensor in graph.tensors:
            tensor.buffer = buffers.index(tensor.buffer)
        for o in operators:
            o.opcodeIndex = codes.index(o.opcodeIndex)
            o.inputs, o.outputs, o.intermediates = (
                None if a is None else [self.number[int(i)] for i in a]
                for a in (o.inputs, o.outputs, o.intermediates)
            )
        model.buffers = [_Buffer(np.frombuffer(self.source.buffer(k), np.uint8)) for k in buffers]
        model.operatorCodes = [model.operatorCodes[k] for k in codes]

    def add(self, x: int, shape: Sequence[int], rng: np.random.Generator, classes: int) -> int:
        """Adds the new layer behind x; returns its output."""
        batch, *between, width = shape
        if any(n != 1 for n in between):
            axes = self._constant(np.arange(1, 1 + len(between), dtype=np.int32), "axes")
            x = self._operator("MEAN", "ReducerOptions", [x, axes], (batch, width), "features")
        values = rng.normal(0, np.sqrt(2 / width), (classes, width)).astype(FLOAT32)
        w = self._constant(values, "weights")
        b = self._constant(np.zeros(classes, FLOAT32), "bias")
        rows, inputs = (batch, classes), [x, w, b]
        y = self._operator("FULLY_CONNECTED", "FullyConnectedOptions", inputs, rows, "logits")
        p = self._operator("SOFTMAX", "SoftmaxOptions", [y], rows, "probabilities")
        self.graph.operators[-1].builtinOptions.beta = 1.0
        return p

    def _constant(self, values: Array, name: str) -> int:
        self.model.buffers.append(_Buffer(values.reshape(-1).view(np.uint8)))
        kind = values.dtype.name.upper()
        return self._tensor(values.shape, name, len(self.model.buffers) - 1, kind)

    def _tensor(
        self, shape: Sequence[int], name: str, buffer: int = 0, kind: str = "FLOAT32"
    ) -> int:
        tensor = schema.Tensor.TensorT()
        tensor.shape, tensor.name, tensor.buffer = list(shape), f"head/{name}", buffer
        tensor.type = getattr(schema.TensorType.TensorType, kind)
        tensor.hasRank = True
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def _operator(
        self, op: str, options: str, inputs: Sequence[int], shape: Sequence[int], name: str
    ) -> int:
        """Adds an operator; its output has a dynamic batch axis if its first input has one."""
        code = schema.OperatorCode.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator.BuiltinOperator, op)
        code.deprecatedBuiltinCode, code.version = code.builtinCode, 1
        self.model.operatorCodes.append(code)
        operator = schema.Operator.OperatorT()
        operator.opcodeIndex = len(self.model.operatorCodes) - 1
        operator.builtinOptionsType = getattr(schema.BuiltinOptions.BuiltinOptions, options)
        operator.builtinOptions = getattr(getattr(schema, options), f"{options}T")()
        signature = self.graph.tensors[inputs[0]].shapeSignature
        y = self._tensor(shape, name)
        if signature is not None and len(signature) and signature[0] == -1:
            self.graph.tensors[y].shapeSignature = [-1, *shape[1:]]
        operator.inputs, operator.outputs = list(inputs), [y]
        self.graph.operators.append(operator)
        return y
