"""Reads scales of blocks: a tensor holds them, beside the tensor of the integers.

Source: BlockwiseQuantization and MultiAxisQuantization in the schema of LiteRT 2.3.0.
"""

import math
from collections.abc import Sequence

import numpy as np

from odt.core.formats.flatbuffer.flatbuffer import DAMAGED, Table
from odt.core.formats.flatbuffer.slots import BlockwiseQuantizationSlot as Blockwise
from odt.core.formats.flatbuffer.slots import MultiAxisQuantizationSlot as MultiAxis
from odt.core.formats.flatbuffer.slots import QuantizationParametersSlot
from odt.core.model.graph import ABSENT, Tensor
from odt.kernels.geometry.quantize import Quantization
from odt.kernels.rows.opdef import Array


def read_block_scales(
    parameters: Table, kind: str, tensor: Tensor, tensors: Sequence[Tensor]
) -> Quantization:
    """Reads the quantization of a tensor whose scales are in another tensor.

    Args:
        parameters: table QuantizationParameters of the tensor.
        kind: BlockwiseQuantization or MultiAxisQuantization.
        tensor: the tensor.
        tensors: all tensors of the subgraph.

    Raises:
        ModelError: if the scales do not fit the tensor.
    """
    details = parameters.table(QuantizationParametersSlot.DETAILS, kind)
    if details is None:
        raise parameters.error(f"{kind} must be there, as its type says, but is absent", DAMAGED)
    blocks = _blocks(details, kind, tensor.spec.shape)
    count = math.prod(n // b for n, b in zip(tensor.spec.shape, blocks, strict=True))
    details.source.spend(details.where, count)  # many tensors may name one tensor of scales
    scale = _numbers(details, details.number(Blockwise.SCALES), "scales", tensors, count)
    index = details.number(Blockwise.ZERO_POINTS)
    zero_point = np.zeros(count, np.int64)
    if index != ABSENT:
        zero_point = _numbers(details, index, "zero points", tensors, count)
    axis = parameters.number(QuantizationParametersSlot.QUANTIZED_DIMENSION)
    return Quantization(scale.astype("<f4"), zero_point.astype("<i8"), axis, blocks)


def _blocks(details: Table, kind: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the entries along each axis that share a scale."""
    size = details.number(Blockwise.BLOCK_SIZE)
    if kind == "MultiAxisQuantization":
        axes = details.numbers(MultiAxis.QUANTIZED_DIMENSIONS, "quantized dimensions")
        if not set(axes) <= set(range(len(shape))) or len({*axes}) < len(axes) or not axes:
            raise details.error(
                f"quantized dimensions must be different axes of {shape}, but got {axes[:8]}"
            )
        if size:
            raise details.error(
                f"scales along several axes must have no blocks, but got blocks of {size}",
                "The schema of LiteRT 2.3.0 does not define the order of their scales.",
            )
        return tuple(1 if k in axes else max(n, 1) for k, n in enumerate(shape))
    blocks = details.numbers(Blockwise.BLOCK_SHAPE, "block shape")
    if not blocks and shape:
        blocks = (*(1,) * (len(shape) - 1), size)
    if len(blocks) != len(shape) or min(blocks, default=1) < 1:
        raise details.error(
            f"a block must have a positive size along each axis of {shape}, but got {blocks[:8]}"
        )
    if any(n % b for n, b in zip(shape, blocks, strict=True)):
        raise details.error(f"blocks must divide the shape, but got {blocks} of {shape}")
    return blocks


def _numbers(details: Table, index: int, what: str, tensors: Sequence[Tensor], count: int) -> Array:
    """Returns the values of the tensor that holds scales or zero points."""
    if not 0 <= index < len(tensors):
        raise details.error(f"the tensor of {what} must be below {len(tensors)}, but got {index}")
    spec, data = tensors[index].spec, tensors[index].data
    if data is None or spec.dtype.kind not in ("f" if what == "scales" else "iu"):
        kind = "real numbers" if what == "scales" else "integers"
        actual = (spec.dtype.names or (str(spec.dtype),))[0]
        raise details.error(
            f"{what} must be a constant of {kind}, but got tensor {index} of {actual}",
        )
    if data.size != count:
        raise details.error(
            f"there must be {count} {what}, one for each block, but got {data.size}"
        )
    return data.reshape(-1)
