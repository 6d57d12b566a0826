"""New class convolutions of a detector: its scores get columns for other classes.

The layers are found by walking back from the scores. Each position of their outputs (an anchor or a
cell) has a column for each class. All other tensors and operators keep their bytes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from odt.core.export.class_scores import ClassScores
from odt.core.export.detection_counts import with_counts
from odt.core.export.head_metadata import relabeled_metadata
from odt.core.export.model_tables import (
    buffer_entry,
    drop_unused_buffers,
    model_tables,
    packed_model,
)
from odt.core.export.symmetric_weights import symmetric_weights
from odt.core.formats.flatbuffer.detection_postprocess import OPERATOR
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.core.lowering.final_activation import producer
from odt.core.model.graph import ABSENT, Graph, Node
from odt.core.model.model import Model
from odt.core.recipe.option_values import check_whole
from odt.errors import UnsupportedError
from odt.kernels.geometry.quantize import Quantization, dequantize, quantize
from odt.kernels.rows.opdef import Array

LAYERS = ("CONV_2D", "FULLY_CONNECTED")
# Operators between the layers and the scores.
BETWEEN = (
    "CONCATENATION",
    "DEQUANTIZE",
    "EXPAND_DIMS",
    "FAKE_QUANT",
    "LOGISTIC",
    "QUANTIZE",
    "RESHAPE",
    "SOFTMAX",
    "SQUEEZE",
)
WEIGHTS, BIAS = 1, 2  # inputs of a layer
SHAPE = 1  # input of a RESHAPE
SHAPE_FIELDS = ("shape", "shape_signature")  # of a tensor
DEVIATION = 0.01  # of the noise of new weights (Lin et al., 2017)
RARE = -4.6  # bias of a class: the logit of a probability of 0.01 (Lin et al., 2017)


def replace_classes(
    model: Model, scores: ClassScores, names: Sequence[str], seed: int = 0
) -> Model:
    """Replaces the class convolutions of a detector by new ones, for other classes.

    Args:
        model: the detector.
        scores: its scores.
        names: names of the new classes, which the metadata get.
        seed: random seed of the new weights.

    Returns:
        The new model, which has the old one's path.

    Raises:
        OptionError: if the seed is below 0.
        UnsupportedError: if the scores come from other operators than LAYERS and BETWEEN, or
            operators other than the post-processing read them or a value between.
        DataError: if the preprocessing record in the model's metadata is damaged.
        LostFileError: if the model's file became shorter.
    """
    model.check_flatbuffer("replace_head")
    check_whole("seed", seed, 0)
    new = _NewColumns(model, scores, scores.background + len(names), seed)
    new.replace()
    entries, archive = relabeled_metadata(
        model,
        scores.labeled,
        names,
        scores.columns,
        scores.background,
        has_columns=model.graph.outputs[scores.labeled] == scores.tensor,
    )
    new.set_metadata(entries)
    drop_unused_buffers(new.tables)
    packed = packed_model(model, new.tables, archive)
    model.check_file()
    replaced = parse_model(memoryview(packed), model.path, model.signature)
    return with_counts(replaced, {"num_classes": len(names)})


def class_layers(graph: Graph, scores: int) -> list[Node]:
    """Returns the layers that compute class scores, in the order of the file.

    Raises:
        UnsupportedError: as `replace_classes`.
    """
    return [node for node in _nodes_before(graph, scores) if node.op in LAYERS]


class _NewColumns:
    """The tables of a model, in which scores get other columns.

    Args:
        model: the model.
        scores: the scores.
        count: new number of columns.
        seed: random seed of the new weights.

    Raises:
        UnsupportedError: as `replace_classes`.
    """

    def __init__(self, model: Model, scores: ClassScores, count: int, seed: int) -> None:
        self.tables = model_tables(model)
        self._model = model
        self._scores = scores
        self._count = count
        self._subgraph = self.tables["subgraphs"][model.subgraph]
        self._random = np.random.default_rng(seed)
        self._nodes = _nodes_before(model.graph, scores.tensor)
        self._origins = {node.origin for node in self._nodes}
        self._weights: dict[int, tuple[Array, Quantization | None]] = {}  # by old buffer

    def replace(self) -> None:
        """Changes shapes, and replaces weights and biases."""
        for node in self._nodes:
            output = node.outputs[0]
            table = self._subgraph["tensors"][output]
            for name in SHAPE_FIELDS:
                if len(shape := table.get(name, ())):
                    table[name] = [*shape[:-1], self._wider(int(shape[-1]), output)]
            if node.op == "RESHAPE":
                self._reshape(node)
            elif node.op in LAYERS:
                self._renew(node)

    def set_metadata(self, entries: Mapping[str, bytes]) -> None:
        """Replaces or adds metadata entries."""
        for name, data in entries.items():
            if name in self._model.metadata:
                self.tables["buffers"][self._model.metadata[name]] = buffer_entry(data)
            else:
                entry = {"name": name, "buffer": self._add_buffer(data)}
                self.tables.setdefault("metadata", []).append(entry)

    def _wider(self, size: int, tensor: int) -> int:
        """Returns the new size of an axis that has the columns of one or several anchors."""
        if size % self._scores.columns and size != -1:
            label = self._model.graph.label(tensor)
            raise self._unsupported(f"{label}, {size} values for {self._scores.columns} classes")
        return size if size == -1 else size // self._scores.columns * self._count

    def _reshape(self, node: Node) -> None:
        """Changes the shape that a RESHAPE makes."""
        y = node.outputs[0]
        options = self._subgraph["operators"][node.origin].get("builtin_options") or {}
        if len(shape := options.get("new_shape", ())):
            options["new_shape"] = [*shape[:-1], self._wider(int(shape[-1]), y)]
        if len(node.inputs) > SHAPE:
            old = self._model.graph.tensors[node.inputs[SHAPE]].data
            if old is None:
                raise self._unsupported(f"a computed shape in {_place(node)}")
            new = old.copy()
            new[..., -1] = self._wider(int(old[..., -1].item()), y)
            self._set_constant(node, SHAPE, new)

    def _renew(self, node: Node) -> None:
        """Replaces weights and bias of a layer."""
        graph = self._model.graph
        reader, k = self._reader(node, WEIGHTS)
        stored = reader.inputs[k]
        tensor = graph.tensors[stored]
        if tensor.data is None or tensor.spec.dtype.names or stored in self._model.sparsity:
            raise self._unsupported(f"sparse, computed or 4-bit weights in {_place(node)}")
        if tensor.buffer not in self._weights:  # layers of several feature maps may share weights
            background, classes = self._real_columns(stored)
            new = background, classes + self._random.normal(0, DEVIATION, classes.shape)
            weights = np.concatenate(new, axis=1).reshape(-1, *tensor.spec.shape[1:])
            scales = self._model.quantization.get(stored)
            self._weights[tensor.buffer] = _encoded(weights, tensor.spec.dtype, scales)
        values, scales = self._weights[tensor.buffer]
        self._set_constant(node, WEIGHTS, values, scales)
        self._set_constant(node, BIAS, *self._bias(node, len(values), scales))

    def _real_columns(self, tensor: int) -> tuple[Array, Array]:
        """Returns real numbers for the columns of the background (A, B, …) and of new classes.

        The background keeps its columns; each new class gets the mean of the old ones, which tells
        objects from background.

        Args:
            tensor: constant with old columns along its first axis.
        """
        scores = self._scores
        data = self._model.graph.tensors[tensor].data
        assert data is not None, "the caller has checked it"
        scales = self._model.quantization.get(tensor)
        real = dequantize(data, scales) if scales is not None else data.astype(np.float32)
        self._wider(len(real), tensor)  # checks the number of columns
        columns = real.reshape(-1, scores.columns, *real.shape[1:])
        background, classes = np.split(columns, [scores.background], axis=1)
        mean = classes.mean(axis=1, keepdims=True)
        return background, np.repeat(mean, self._count - scores.background, axis=1)

    def _bias(
        self, node: Node, count: int, weights: Quantization | None
    ) -> tuple[Array, Quantization | None]:
        """Returns the bias of a layer as the file stores it.

        Args:
            node: the layer.
            count: its number of output channels.
            weights: scales of its weights.
        """
        graph = self._model.graph
        reader, k = self._reader(node, BIAS)
        has_bias = len(reader.inputs) > k and reader.inputs[k] != ABSENT
        bias = np.full((count // self._count, self._count), RARE)
        if self._scores.background:
            bias[:, 0] = self._real_columns(reader.inputs[k])[0][:, 0] if has_bias else 0
        x = self._model.quantization.get(node.inputs[0])
        if weights is not None and x is not None:
            is_int16 = graph.tensors[node.inputs[0]].spec.dtype.itemsize == 2
            scales = Quantization(x.scale * weights.scale, np.zeros_like(weights.zero_point), 0)
            dtype = np.dtype(np.int64 if is_int16 else np.int32)
            return quantize(bias.reshape(-1), scales, dtype), scales
        old = graph.tensors[reader.inputs[k]].spec.dtype if has_bias else np.dtype(np.float32)
        return bias.reshape(-1).astype(old), None

    def _reader(self, node: Node, k: int) -> tuple[Node, int]:
        """Returns the node that reads a constant as stored, which may be a DEQUANTIZE."""
        present = len(node.inputs) > k and node.inputs[k] != ABSENT
        maker = producer(self._model.graph, node.inputs[k]) if present else None
        return (maker, 0) if maker is not None and maker.op == "DEQUANTIZE" else (node, k)

    def _set_constant(
        self, node: Node, k: int, values: Array, scales: Quantization | None = None
    ) -> None:
        """Sets the constant that a node reads; what other nodes read stays.

        Args:
            node: the node.
            k: position of the constant in its inputs; a new one follows them.
            values: values as the file stores them.
            scales: their quantization; None to keep it.
        """
        tensors = self._subgraph["tensors"]
        reader, at = self._reader(node, k)
        if reader is not node:  # real numbers that a DEQUANTIZE computes
            if not self._reads_alone(node.inputs[k]):
                raise self._unsupported(f"constants in {_place(node)} that other operators read")
            self._origins.add(reader.origin)
            tensors[node.inputs[k]]["shape"] = list(values.shape)
        operator = self._subgraph["operators"][reader.origin]
        inputs = [*map(int, operator["inputs"])]
        old = inputs[at] if at < len(inputs) else ABSENT
        new = {
            **({"name": f"head/{node.origin}/{k}"} if old == ABSENT else tensors[old]),
            "shape": list(values.shape),
            "type": code_of("TensorType", values.dtype.name.upper()),
            "buffer": self._add_buffer(values),
        }
        if scales is not None:
            new["quantization"] = {"scale": scales.scale, "zero_point": scales.zero_point}
        if old != ABSENT and self._reads_alone(old):
            tensors[old] = new
        else:
            operator["inputs"] = [*inputs[:at], len(tensors), *inputs[at + 1 :]]
            tensors.append(new)

    def _reads_alone(self, tensor: int) -> bool:
        """Whether no operators but those before the scores read a constant."""
        return self._origins.issuperset(
            n.origin for n in self._model.graph.nodes if tensor in n.inputs
        )

    def _add_buffer(self, data: bytes | Array) -> int:
        self.tables["buffers"].append(buffer_entry(data))
        return len(self.tables["buffers"]) - 1

    def _unsupported(self, actual: str) -> UnsupportedError:
        return _unsupported(self._model.graph, actual)


def _nodes_before(graph: Graph, scores: int) -> list[Node]:
    """Returns the operators from the layers to the scores.

    Other operators may not read their values, but the post-processing may read the scores.
    """
    nodes: dict[int, Node] = {}
    rest = [scores]
    while rest:
        node = producer(graph, rest.pop())
        if node is None or node.op not in (*LAYERS, *BETWEEN):
            raise _unsupported(graph, _place(node) if node else "an input or constant")
        if node.origin not in nodes:
            nodes[node.origin] = node
            if node.op not in LAYERS:
                rest += node.inputs if node.op == "CONCATENATION" else node.inputs[:1]
    values = {n.outputs[0] for n in nodes.values()}
    for node in graph.nodes:
        allowed = {scores} if node.op == OPERATOR else set()
        if node.origin not in nodes and values.intersection(node.inputs) - allowed:
            raise _unsupported(graph, f"{_place(node)}, which reads them too")
    return [nodes[k] for k in sorted(nodes)]


def _encoded(
    values: Array, dtype: np.dtype[Any], old: Quantization | None
) -> tuple[Array, Quantization | None]:
    """Returns weights as the file stores them.

    Args:
        values: real weights.
        dtype: type in the file.
        old: quantization of the old weights; None for real numbers.
    """
    if old is None:
        return values.astype(dtype), None
    return symmetric_weights(values, dtype, per_unit=old.scale.size > 1)


def _place(node: Node) -> str:
    return f"operator {node.origin} ({node.op})"


def _unsupported(graph: Graph, actual: str) -> UnsupportedError:
    return UnsupportedError(
        f"{graph.name}: class scores must come from {' and '.join(LAYERS)}, which compute the "
        f"classes of each anchor or cell, but got {actual}. Keep the classes of the file, or make "
        "a classifier with `classifier=True`."
    )
