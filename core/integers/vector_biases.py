"""Biases as vectors: files made from ONNX store some as (1, O), which TFLite reads as (O,)."""

from dataclasses import replace

from odt.core.model.graph import ABSENT, Graph, Tensor
from odt.kernels.rows.opdef import TensorSpec

# Operator → position of its bias among the inputs; LiteRT refuses such biases of other operators.
BIASED = {"FULLY_CONNECTED": 2, "CONV_2D": 2, "CONV_3D": 2, "TRANSPOSE_CONV": 3}


def vector_biases(graph: Graph) -> Graph:
    """Returns the graph with the shape (O,) for constants that are read as biases only."""
    biases: set[int] = set()
    others = set(graph.outputs)
    for node in graph.nodes:
        for k, i in enumerate(node.inputs):
            tensors_of_kind = biases if BIASED.get(node.op) == k else others
            tensors_of_kind.add(i)
    matrices = {i for i in biases - others if i != ABSENT and _is_matrix(graph.tensors[i])}
    if not matrices:
        return graph
    tensors = (_as_vector(t) if i in matrices else t for i, t in enumerate(graph.tensors))
    return replace(graph, tensors=tuple(tensors))


def _is_matrix(tensor: Tensor) -> bool:
    return tensor.data is not None and len(tensor.spec.shape) > 1


def _as_vector(tensor: Tensor) -> Tensor:
    assert tensor.data is not None
    spec = TensorSpec((tensor.data.size,), tensor.spec.dtype)
    return replace(tensor, spec=spec, signature=spec.shape, data=tensor.data.reshape(-1))
