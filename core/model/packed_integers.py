"""Constants of 2 and 4 bits, of which a byte holds several, packed in files and unpacked in graphs.

INT2 and INT4 become int8. UINT4 becomes uint8 where DEQUANTIZE alone reads it, because no other
operator of LiteRT 2.3.0 does.
"""

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from odt.core.model.graph import ABSENT, Graph, Tensor
from odt.core.model.model import Model
from odt.errors import ModelError
from odt.kernels.geometry.quantize import Quantization
from odt.kernels.geometry.weight_quantization import unpack
from odt.kernels.rows.opdef import Array, TensorSpec

BITS = {"INT2": 2, "INT4": 4, "UINT4": 4}  # of the types of the schema


def packed_bits(tensor: Tensor) -> int:
    """Returns the bits of the integers that a constant of the file packs into bytes, or 0."""
    names = tensor.spec.dtype.names
    return BITS.get(names[0], 0) if tensor.data is not None and names else 0


def int2_filters(model: Model) -> frozenset[int]:
    """Returns the constants of int2 with which a CONV_2D filters real numbers.

    LiteRT 2.3.0 has no kernel for them and computes other numbers, so they train and are exported
    as int4.
    """
    tensors = model.graph.tensors
    layers = [n for n in model.graph.nodes if n.op == "CONV_2D" and len(n.inputs) > 1]
    filters = {n.inputs[1] for n in layers if tensors[n.inputs[0]].spec.dtype == np.float32}
    packed = (i for i in filters - {ABSENT} if packed_bits(tensors[i]) == 2)
    quantization = model.quantization
    return frozenset(i for i in packed if i in quantization and not quantization[i].blocks)


def int2_as_int4(quantization: Quantization) -> Quantization:
    """Returns the quantization of int4 that represents the numbers of int2 by integers 4 q."""
    return replace(
        quantization, scale=quantization.scale / 4, zero_point=quantization.zero_point * 4
    )


def unpack_constants(graph: Graph, packed: Collection[int] = ()) -> Graph:
    """Returns a graph with constants of bytes for those of 2 and 4 bits.

    Args:
        graph: the file's.
        packed: constants whose data stay packed.
    """
    if not any(map(packed_bits, graph.tensors)):
        return graph
    others = {i for n in graph.nodes if n.op != "DEQUANTIZE" for i in n.inputs}
    tensors = list(graph.tensors)
    for i, tensor in enumerate(graph.tensors):
        if packed_bits(tensor) and not (is_unsigned(tensor) and i in others):
            tensors[i] = _unpack(graph, i, i in packed)
    return replace(graph, tensors=tuple(tensors))


def is_unsigned(tensor: Tensor) -> bool:
    """Whether a constant is of UINT4."""
    return tensor.spec.dtype.names == ("UINT4",)


def _unpack(graph: Graph, i: int, stays: bool) -> Tensor:
    """Returns a packed constant with the spec of bytes, and with such values unless it stays."""
    tensor = graph.tensors[i]
    bits = packed_bits(tensor)
    assert tensor.data is not None
    size = tensor.spec.size
    nbytes = -(-size * bits // 8)
    if tensor.data.size != nbytes:
        raise ModelError(
            f"{graph.name}: {graph.label(i)}: its {'u' * is_unsigned(tensor)}int{bits} values need "
            f"{nbytes} bytes, but got {tensor.data.size}."
        )
    if stays:
        return replace(tensor, spec=TensorSpec(tensor.spec.shape, np.dtype(np.int8)))
    data: Array = np.empty(tensor.spec.shape, np.int8)
    unpack(tensor.data, bits, data.reshape(-1))
    if is_unsigned(tensor):
        data = data.view(np.uint8)
        data &= 2**bits - 1
    data.flags.writeable = False
    return replace(tensor, spec=TensorSpec(tensor.spec.shape, data.dtype), data=data)


def pack_integers(integers: Array, bits: int) -> Array:
    """Returns integers of 2 or 4 bits, packed into bytes, the first in the lowest bits."""
    values = integers.reshape(-1)
    count = 8 // bits
    padded = np.append(values, np.zeros(-values.size % count, values.dtype)).view(np.uint8)
    places = (padded & (2**bits - 1)).reshape(-1, count) << np.arange(0, 8, bits, dtype=np.uint8)
    return np.asarray(np.bitwise_or.reduce(places, axis=1))
