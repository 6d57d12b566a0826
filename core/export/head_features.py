"""Chooses the features of a model that a new last layer reads."""

import numpy as np

from odt.core.lowering.final_activation import producer, producing_operator
from odt.core.model.graph import Graph, Node, Tensor
from odt.core.model.variables import ASSIGN, HANDLE, INITIALIZE, Key, handles
from odt.dataclass import dataclass
from odt.errors import ModelError, OptionError

# Operators whose constants are a bias, a scale or a slope, not a layer.
ELEMENTWISE = ("ADD", "SUB", "MUL", "DIV", "PRELU")
REDUCTIONS = ("MEAN", "REDUCE_MAX")
POOLINGS = ("AVERAGE_POOL_2D", "MAX_POOL_2D")
HEIGHT_AND_WIDTH = ([1, 2], [2, 3])  # axes of (N, H, W, C) and of PyTorch's (N, C, H, W)


@dataclass(frozen=True, slots=True)
class Features:
    """A tensor that a new layer can read.

    Attributes:
        tensor: index in the file.
        operator: position of the operator that computes them; None for an input of the model.
        kind: name of the operator; empty for an input of the model.
    """

    tensor: int
    operator: int | None
    kind: str


def choose_features(graph: Graph, after: int | None = None) -> tuple[Features, list[Features]]:
    """Chooses the features that a new last layer reads.

    The features are the last ones that are pooled over height and width and read by a layer. A
    classifier was trained on them, and they serve other tasks too; the layers after them were
    trained for the old task. Without pooled features, the input of the last layer is chosen.

    Args:
        graph: as in the file, with float32 weights.
        after: position of the operator that computes the features; None to choose.

    Returns:
        The features, and other feature vectors that later layers read; with `after`, also earlier
        layers.

    Raises:
        ModelError: if no layer has weights, or there are no operators.
        OptionError: if there is no operator at the position.
    """
    candidates = _read_by_layers(graph)
    pooled = next((f for f in candidates if _is_pooled(graph, f)), None)
    if after is not None:
        features = _features_at(graph, after)
    elif candidates:
        features = pooled or candidates[0]
    else:
        raise ModelError(
            f"{graph.name}: must have a layer with weights, but got none. Give `after=`, the "
            "operator that computes the features."
        )
    if pooled:
        candidates = candidates[: candidates.index(pooled) + 1]  # earlier layers read feature maps
    operators = {features.operator, None}
    others = [f for f in candidates if f.operator not in operators and _is_vector(graph, f)]
    return features, [f for f in others if _is_only_path(graph, f.tensor)]


def needed_operators(graph: Graph, tensor: int) -> list[int]:
    """Returns the positions in the file of the operators that a tensor depends on.

    Those that assign the variables it depends on are among them.
    """
    makers = {i: node for node in graph.nodes for i in node.outputs}
    keys = handles(graph.nodes)
    assignments: dict[Key, list[Node]] = {}
    for node in graph.nodes:
        if node.op == ASSIGN and node.inputs and node.inputs[0] in keys:
            assignments.setdefault(keys[node.inputs[0]], []).append(node)
    positions: set[int] = set()
    rest = [tensor]
    while rest:
        i = rest.pop()
        nodes = [makers[i]] if i in makers else []
        if i in keys:
            nodes += assignments.get(keys[i], [])
        for node in nodes:
            if node.origin not in positions:
                positions.add(node.origin)
                rest += node.inputs
    if any(node.op == HANDLE and node.origin in positions for node in graph.nodes):
        positions.update(node.origin for node in graph.nodes if node.op == INITIALIZE)
    return sorted(positions)


def _features_at(graph: Graph, after: int) -> Features:
    """Returns the first output of an operator; raises an error if there is none."""
    nodes = {n.origin: n for n in graph.nodes}
    if not nodes:
        raise ModelError(f"{graph.name}: must have operators whose results a layer can read.")
    if after > max(nodes):
        raise OptionError("after", f"must be below {max(nodes) + 1}, the model's operators", after)
    if after not in nodes or not nodes[after].outputs:
        raise OptionError("after", "must be an operator that computes activations", after)
    return Features(nodes[after].outputs[0], after, nodes[after].op)


def _read_by_layers(graph: Graph) -> list[Features]:
    """Returns the tensors that layers with weights read, from the last layer to the first."""
    features: dict[int, Features] = {}
    for node in reversed(graph.nodes):
        inputs = [i for i in node.inputs if i >= 0]
        data = [i for i in inputs if graph.tensors[i].data is None]
        if (
            data
            and node.op not in ELEMENTWISE
            and any(_is_layer_weight(graph.tensors[i]) for i in inputs)
        ):
            features.setdefault(data[0], _features(graph, data[0]))
    return list(features.values())


def _features(graph: Graph, tensor: int) -> Features:
    """Returns a tensor with its operator; the pooling operator if a RESHAPE follows it."""
    maker, source = producer(graph, tensor), producing_operator(graph, tensor)
    node = source if source is not None and _pools(graph, source) else maker
    return Features(tensor, node.origin, node.op) if node else Features(tensor, None, "")


def _is_layer_weight(tensor: Tensor) -> bool:
    """Whether a tensor is a layer's weight matrix or filter."""
    return tensor.data is not None and tensor.spec.dtype.kind == "f" and len(tensor.spec.shape) > 1


def _pools(graph: Graph, node: Node) -> bool:
    """Whether a node reduces height and width to one value for each channel."""
    if node.op in REDUCTIONS and len(node.inputs) == 2:
        x, axes = (graph.tensors[i] for i in node.inputs)
        if axes.data is None or len(x.spec.shape) != 4:
            return False
        return sorted(axes.data.ravel() % 4) in HEIGHT_AND_WIDTH
    return node.op in POOLINGS and graph.tensors[node.outputs[0]].spec.shape[1:3] == (1, 1)


def _is_pooled(graph: Graph, features: Features) -> bool:
    """Whether features are pooled and all outputs depend on the input only through them.

    Features that scale a feature map, as in squeeze-and-excitation, do not count.
    """
    node = producing_operator(graph, features.tensor)
    return node is not None and _pools(graph, node) and _is_only_path(graph, features.tensor)


def _is_only_path(graph: Graph, tensor: int) -> bool:
    """Whether the operators behind a tensor read only it, constants, and each other."""
    before = set(needed_operators(graph, tensor))
    after = {k for i in graph.outputs for k in needed_operators(graph, i)} - before
    nodes = [n for n in graph.nodes if n.origin in after]
    available = {tensor, *(i for n in nodes for i in n.outputs)}
    read = {i for n in nodes for i in n.inputs if i >= 0} | set(graph.outputs)
    return all(graph.tensors[i].data is not None for i in read - available)


def _is_vector(graph: Graph, features: Features) -> bool:
    spec = graph.tensors[features.tensor].spec
    rows = len(spec.shape) > 1 and spec.size == spec.shape[0] * spec.shape[-1]
    return rows and spec.dtype == np.float32
