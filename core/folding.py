"""Weights stored as float16 or int8 beside float activations, unfolded to float32 to train.

Two spellings: a constant behind a DEQUANTIZE, and an operator that names the integers itself
(TFLite calls that hybrid). The graph gets float32 constants in their place; the file can be
written again as it was, with new integers and new scales in the old places.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from odt.core.graph import ABSENT, Graph, Node, Tensor
from odt.core.reader import Model, Quantization
from odt.errors import UnsupportedError
from odt.kernels.opdef import Array, TensorSpec

FLOAT32, FLOAT16 = np.dtype(np.float32), np.dtype(np.float16)
LARGEST = 127  # of a symmetric int8: −128 stays unused, so that both signs reach as far


@dataclass(frozen=True, slots=True)
class Folded:
    """A graph of float weights, and how the file stores them.

    Attributes:
        graph: as in the file, with float32 constants.
        stored: buffer index → index of a tensor that names it, for what was unfolded.
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


def fold_weights(model: Model) -> Folded:
    """The model's graph with float32 constants for float16 and int8 weights."""
    graph = model.graph
    tensors, nodes = list(graph.tensors), []
    stored: dict[int, int] = {}

    def unfold(i: int, into: int) -> None:
        values = _real(tensors[i], model.quantization.get(i))
        values.flags.writeable = False
        spec = TensorSpec(values.shape, FLOAT32)
        stored[tensors[i].buffer] = i
        tensors[into] = replace(tensors[i], spec=spec, data=values, quantized=False)

    for node in graph.nodes:
        single = len(node.inputs) == len(node.outputs) == 1
        if node.op == "DEQUANTIZE" and single and _is_weight(graph, node.inputs[0], model):
            unfold(node.inputs[0], node.outputs[0])
            continue
        if _is_hybrid(graph, node):
            for i in dict.fromkeys(node.inputs):
                if _is_weight(graph, i, model):
                    unfold(i, i)
        nodes.append(node)
    return Folded(replace(graph, tensors=tuple(tensors), nodes=tuple(nodes)), stored)


def as_stored(
    model: Model, folded: Folded, parameters: Mapping[int, Array]
) -> tuple[dict[int, Array], list[tuple[int, bytes | memoryview]]]:
    """Trained weights as the file stores them.

    Args:
        parameters: buffer index → float32 values.

    Returns:
        The values by buffer, and new scales: where in the file, and their bytes.

    Raises:
        UnsupportedError: for integers whose zero point is not 0.
    """
    values: dict[int, Array] = {}
    scales: list[tuple[int, bytes | memoryview]] = []
    start = np.frombuffer(model.data, np.uint8).ctypes.data
    for buffer, a in parameters.items():
        if buffer not in folded.stored:
            values[buffer] = a
            continue
        i = folded.stored[buffer]
        found = model.quantization.get(i)
        if found is None:
            values[buffer] = a.astype(FLOAT16)
            continue
        if found.zero_point.any():
            raise UnsupportedError(
                f"{model.path}: {model.graph.label(i)}: zero points must be 0 to store new "
                f"weights, but got {found.zero_point.tolist()[:4]}. Give --export-weights float."
            )
        shape = _along(found, a.ndim)
        axes = tuple(k for k in range(a.ndim) if shape[k] == 1)
        scale = np.maximum(abs(a).max(axis=axes, keepdims=True) / LARGEST, 1e-12)
        values[buffer] = np.clip(np.rint(a / scale), -LARGEST, LARGEST).astype(np.int8)
        scales.append((found.scale.ctypes.data - start, scale.astype("<f4").tobytes()))
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
