"""Constants of int4, of which a byte holds two: as int8 in graphs, packed again for files."""

from dataclasses import replace

import numpy as np

from odt.core.model.graph import MAX_NAME, Graph, Tensor
from odt.errors import ModelError, one_line
from odt.kernels.rows.opdef import Array, TensorSpec


def is_int4(tensor: Tensor) -> bool:
    """Whether a tensor is a constant of int4, as in the file."""
    return tensor.data is not None and tensor.spec.dtype.names == ("INT4",)


def unpack_int4(graph: Graph) -> Graph:
    """Returns a graph with int8 constants for those of int4."""
    if not any(map(is_int4, graph.tensors)):
        return graph
    return replace(graph, tensors=tuple(_unpack(graph, t) for t in graph.tensors))


def _unpack(graph: Graph, tensor: Tensor) -> Tensor:
    """Returns a tensor with int8 values if it is a constant of int4."""
    if not is_int4(tensor):
        return tensor
    assert tensor.data is not None
    size = tensor.spec.size
    nbytes = (size + 1) // 2
    if tensor.data.size != nbytes:
        raise ModelError(
            f"{graph.name}: tensor {one_line(tensor.name, MAX_NAME)}: its int4 values need "
            f"{nbytes} bytes, but got {tensor.data.size}."
        )
    # Both halves of a byte in the upper bits, the lower half first; >> of int8 keeps the sign.
    pairs = np.stack([tensor.data << 4, tensor.data], axis=1).view(np.int8) >> 4
    data = pairs.reshape(-1)[:size].reshape(tensor.spec.shape)
    data.flags.writeable = False
    return replace(tensor, spec=TensorSpec(tensor.spec.shape, np.dtype(np.int8)), data=data)


def pack_int4(integers: Array) -> Array:
    """Returns integers of 4 bits, two in a byte, the first in its lower half."""
    values = integers.reshape(-1)
    padded = np.append(values, np.zeros(values.size % 2, np.int8)).view(np.uint8) & 15
    return np.asarray(padded[::2] | padded[1::2] << 4)
