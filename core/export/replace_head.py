"""Replaces the last layer of a model, for transfer learning.

The operators that compute the features stay; those that only the old layer needed are removed,
together with signatures and metadata, which describe the old outputs.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import flatbuffers
import numpy as np

from odt.core.lowering.lower import LoweredGraphs
from odt.core.lowering.lowered_model import lower_model
from odt.core.model.flatbuffer import FlatBuffer
from odt.core.model.graph import Graph, Tensor
from odt.core.model.reader import FORMATS, Model, parse_model
from odt.core.model.schema_tables import code_of, pack, unpack
from odt.errors import ModelError, OptionError, UnsupportedError
from odt.kernels.opdef import Array

MOST_BYTES = 2**31 - 2**24  # of a flatbuffer, with room for its tables
FLOAT32 = np.dtype(np.float32)
ELEMENTWISE = ("ADD", "SUB", "MUL", "DIV")  # their constants are a bias or a scale, no layer
TENSOR_LISTS = ("inputs", "outputs", "intermediates")  # of an operator
REMOVED = ("signature_defs", "metadata", "metadata_buffer")  # they describe the old outputs


def replace_head(model: Model, classes: int, after: int | None = None, seed: int = 0) -> Model:
    """Puts FULLY_CONNECTED and SOFTMAX after a model's features; the format stays.

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
    packed = _packed(model, features, kept, shape, np.random.default_rng(seed), classes)
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
                "after", f"must be below {len(outputs)}, the model's operators", after
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
        f"{model.path}: must have a layer with weights, but got none. Say with `after=` which "
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
            "`after=`; `Model.summary()` counts the operators."
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


def _packed(
    model: Model,
    features: int,
    kept: Sequence[int],
    shape: Sequence[int],
    rng: np.random.Generator,
    classes: int,
) -> bytes:
    """Serialises the model of the kept operators and the new layer."""
    old = unpack(FlatBuffer(model.path, model.data).root(), "Model")
    graph = old["subgraphs"][0]
    old["subgraphs"] = [graph]  # the others are for control flow, which odt does not compute
    head = _Head(model, old, graph)
    head.keep([graph["operators"][k] for k in kept], features)
    graph["outputs"] = [head.add(head.number[features], shape, rng, classes)]
    for name in REMOVED:
        old.pop(name, None)
    builder = flatbuffers.Builder(1024)
    identifier = next(i for i, name in FORMATS.items() if name == model.format)
    try:
        builder.Finish(pack(builder, "Model", old), identifier)
    except flatbuffers.builder.BuilderSizeError as e:
        raise UnsupportedError(
            f"{model.path}: a model with a new head must be below {MOST_BYTES} bytes, but got more"
        ) from e
    return bytes(builder.Output())


class _Head:
    """Removes unused entries from a model's tables and adds a new layer.

    Attributes:
        number: old number of each kept tensor → new number.
    """

    def __init__(self, source: Model, model: dict[str, Any], graph: dict[str, Any]) -> None:
        self.source, self.model, self.graph = source, model, graph

    def keep(self, operators: list[dict[str, Any]], features: int) -> None:
        """Keeps some operators and renumbers tensors, buffers and operator codes."""
        graph, model = self.graph, self.model
        lists = [o[name] for o in operators for name in TENSOR_LISTS if name in o]
        used = {features, *(int(i) for numbers in lists for i in numbers)} - {-1}
        count = len(graph["tensors"])
        if not used <= set(range(count)):
            raise ModelError(
                f"{self.source.path}: an operator's tensors must be below {count}, "
                f"but got {max(used - set(range(count)))}"
            )
        self.number = {i: k for k, i in enumerate(sorted(used))} | {-1: -1}
        graph["tensors"] = [graph["tensors"][i] for i in sorted(used)]
        graph["inputs"] = [self.number[int(i)] for i in graph.get("inputs", ()) if i in used]
        graph["operators"] = operators
        buffers = sorted({0, *(t.get("buffer", 0) for t in graph["tensors"])})
        codes = sorted({o.get("opcode_index", 0) for o in operators})
        for tensor in graph["tensors"]:
            tensor["buffer"] = buffers.index(tensor.get("buffer", 0))
        for o in operators:
            o["opcode_index"] = codes.index(o.get("opcode_index", 0))
            for name in TENSOR_LISTS:
                if name in o:
                    o[name] = [self.number[int(i)] for i in o[name]]
        spans = self.source.spans or ((0, 0),)
        model["buffers"] = [
            _buffer(self.source.data[at : at + n]) for at, n in map(spans.__getitem__, buffers)
        ]
        model["operator_codes"] = [model["operator_codes"][k] for k in codes]

    def add(self, x: int, shape: Sequence[int], rng: np.random.Generator, classes: int) -> int:
        """Adds the new layer after x; returns its output."""
        batch, *between, width = shape
        if any(n != 1 for n in between):
            axes = self._constant(np.arange(1, 1 + len(between), dtype=np.int32), "axes")
            x = self._operator("MEAN", "ReducerOptions", [x, axes], (batch, width), "features")
        values = rng.normal(0, np.sqrt(2 / width), (classes, width)).astype(FLOAT32)
        w = self._constant(values, "weights")
        b = self._constant(np.zeros(classes, FLOAT32), "bias")
        rows, inputs = (batch, classes), [x, w, b]
        y = self._operator("FULLY_CONNECTED", "FullyConnectedOptions", inputs, rows, "logits")
        return self._operator("SOFTMAX", "SoftmaxOptions", [y], rows, "probabilities", beta=1.0)

    def _constant(self, values: Array, name: str) -> int:
        self.model["buffers"].append(_buffer(values.tobytes()))
        kind = values.dtype.name.upper()
        return self._tensor(values.shape, name, len(self.model["buffers"]) - 1, kind)

    def _tensor(
        self, shape: Sequence[int], name: str, buffer: int = 0, kind: str = "FLOAT32"
    ) -> int:
        tensor = {
            "shape": shape,
            "name": f"head/{name}",
            "buffer": buffer,
            "type": code_of("TensorType", kind),
            "has_rank": True,
        }
        self.graph["tensors"].append(tensor)
        return len(self.graph["tensors"]) - 1

    def _operator(
        self,
        op: str,
        table: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        name: str,
        **options: Any,
    ) -> int:
        """Adds an operator; its output has a dynamic batch axis if its first input has one."""
        code = code_of("BuiltinOperator", op)
        self.model["operator_codes"].append(
            {"builtin_code": code, "deprecated_builtin_code": code, "version": 1}
        )
        signature = self.graph["tensors"][inputs[0]].get("shape_signature", ())
        y = self._tensor(shape, name)
        if len(signature) and signature[0] == -1:
            self.graph["tensors"][y]["shape_signature"] = [-1, *shape[1:]]
        operator = {
            "opcode_index": len(self.model["operator_codes"]) - 1,
            "inputs": inputs,
            "outputs": [y],
            "builtin_options_type": code_of("BuiltinOptions", table),
            "builtin_options": options,
        }
        self.graph["operators"].append(operator)
        return y


def _buffer(data: bytes | memoryview) -> dict[str, Any]:
    return {"data": np.frombuffer(data, np.uint8)} if len(data) else {}
