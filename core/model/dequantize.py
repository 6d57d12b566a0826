"""Weights stored as float16 or int8 beside float activations, unfolded to float32 to train.

Two spellings: a constant behind a DEQUANTIZE, and an operator that names the integers itself
(TFLite calls that hybrid). The graph gets float32 constants in their place; the file can be
written again as it was, with new integers and new scales in the old places.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from odt.core.model.graph import ABSENT, Graph, Node, Tensor
from odt.core.model.reader import Model, Quantization
from odt.errors import ModelError, UnsupportedError
from odt.kernels.opdef import Array, TensorSpec

FLOAT32, FLOAT16 = np.dtype(np.float32), np.dtype(np.float16)
LARGEST = 127  # of a symmetric int8: −128 stays unused, so that both signs reach as far


@dataclass(frozen=True, slots=True)
class Dequantized:
    """A graph of float weights, and how the file stores them.

    Attributes:
        graph: as in the file, with float32 constants.
        stored: tensor of the graph → the tensor of the file that it was unfolded from.
    """

    graph: Graph
    stored: Mapping[int, int]

    @property
    def note(self) -> str:
        """What a user should know; empty if nothing was unfolded."""
        if not self.stored:
            return ""
        return (
            f"{self.graph.name}: {len(self.stored)} weights are stored as float16 or int8; they "
            "train as float32 and are exported as they were stored, with new scales, "
            "or as float32 with --export-weights float."
        )


def dequantize_weights(model: Model) -> Dequantized:
    """The model's graph with float32 constants for float16 and int8 weights."""
    graph = model.graph
    tensors, nodes = list(graph.tensors), []
    unfolded: dict[int, int] = {}  # tensor of the file → the tensor that first replaced it
    same: dict[int, int] = {}  # further outputs of DEQUANTIZE → the first: one tensor, one weight

    def unfold(i: int, into: int) -> int:
        if i not in unfolded:
            values = _real(graph.tensors[i], _scales(model, i))
            values.flags.writeable = False
            spec = TensorSpec(values.shape, FLOAT32)
            tensors[into] = replace(graph.tensors[i], spec=spec, data=values, quantized=False)
            unfolded[i] = into
        return unfolded[i]

    for node in graph.nodes:
        single = len(node.inputs) == len(node.outputs) == 1
        if node.op == "DEQUANTIZE" and single and _is_weight(graph, node.inputs[0], model):
            (i,), (y,) = node.inputs, node.outputs
            first = unfold(i, y)
            if first != y:
                same[y], tensors[y] = first, tensors[first]
            continue
        inputs = tuple(same.get(i, i) for i in node.inputs)
        if _is_hybrid(graph, node):
            inputs = tuple(unfold(i, i) if _is_weight(graph, i, model) else i for i in inputs)
        nodes.append(node if inputs == node.inputs else replace(node, inputs=inputs))
    stored = {into: i for i, into in unfolded.items()}
    return Dequantized(replace(graph, tensors=tuple(tensors), nodes=tuple(nodes)), stored)


def as_stored(
    model: Model, dequantized: Dequantized, weights: Mapping[int, Array]
) -> tuple[dict[int, Array], dict[int, Array]]:
    """Trained weights as the file stores them.

    Args:
        weights: tensor of the folded graph → float32 values.

    Returns:
        The values by tensor of the file, and new scales of those that have some.

    Raises:
        UnsupportedError: for integers whose zero point is not 0.
    """
    values: dict[int, Array] = {}
    scales: dict[int, Array] = {}
    for tensor, a in weights.items():
        if tensor not in dequantized.stored:
            values[tensor] = a
            continue
        i = dequantized.stored[tensor]
        found = _scales(model, i)
        if found is None:
            values[i] = a.astype(FLOAT16)
            continue
        if found.zero_point.any():
            raise UnsupportedError(
                f"{model.path}: {model.graph.label(i)}: zero points must be 0 to store new "
                f"weights, but got {found.zero_point.tolist()[:4]}. Give --export-weights float."
            )
        shape = _along(found, a.ndim)
        axes = tuple(k for k in range(a.ndim) if shape[k] == 1)
        scale = np.maximum(abs(a).max(axis=axes, keepdims=True) / LARGEST, 1e-12)
        values[i] = np.clip(np.rint(a / scale), -LARGEST, LARGEST).astype(np.int8)
        scales[i] = scale.astype("<f4").reshape(-1)
    return values, scales


def _is_weight(graph: Graph, i: int, model: Model) -> bool:
    tensor = graph.tensors[i]
    if i == ABSENT or tensor.data is None:
        return False
    return tensor.spec.dtype == FLOAT16 or (
        tensor.spec.dtype == np.int8 and i in model.quantization
    )


def _is_hybrid(graph: Graph, node: Node) -> bool:
    """Float goes in and comes out; integers among the inputs can only be weights."""
    active = [i for i in node.inputs if i != ABSENT and graph.tensors[i].data is None]
    return all(graph.tensors[i].spec.dtype == FLOAT32 for i in (*active, *node.outputs))


def _scales(model: Model, i: int) -> Quantization | None:
    """How a weight's integers are scaled; None for float16.

    Raises:
        ModelError: if the scales do not fit the tensor.
    """
    spec, found = model.graph.tensors[i].spec, model.quantization.get(i)
    if found is None or spec.dtype == FLOAT16:
        return None
    count = len(found.scale)
    if count != 1 and spec.shape[found.axis : found.axis + 1] != (count,):
        raise ModelError(
            f"{model.path}: {model.graph.label(i)}: scales must be one, or one for each entry of "
            f"an axis, but got {count} along axis {found.axis} of {spec}"
        )
    return found


def _along(quantization: Quantization, rank: int) -> tuple[int, ...]:
    """The shape in which the scales stand beside the values."""
    count = len(quantization.scale)
    if count == 1:
        return (1,) * rank
    return tuple(count if k == quantization.axis else 1 for k in range(rank))


def _real(tensor: Tensor, quantization: Quantization | None) -> Array:
    assert tensor.data is not None
    if quantization is None:
        return tensor.data.astype(FLOAT32)
    shape = _along(quantization, tensor.data.ndim)
    zero = quantization.zero_point.reshape(shape).astype(FLOAT32)
    return (tensor.data.astype(FLOAT32) - zero) * quantization.scale.reshape(shape)
