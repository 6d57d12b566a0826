"""SPACE_TO_DEPTH: rearranges each block of b × b pixels into one pixel with b² times the channels.

x (N, H, W, C)    y (N, H/b, W/b, b²·C)

dx is dy moved back. Source: SpaceToDepthOptions in the TFLite schema, tf.nn.space_to_depth.
"""

from collections.abc import Iterator

from odt.errors import ShapeError
from odt.kernels.families.block_moves import block_attrs, block_move, blocks, images
from odt.kernels.rows.opdef import Array, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef


def infer(size: int, s: Specs) -> Specs:
    x = images(s)
    n, height, width, channels = x.shape
    if size < 1 or height % size or width % size:
        raise ShapeError(f"block_size must divide H and W of x, but got {size}, x {x}")
    shape = (n, height // size, width // size, channels * size * size)
    return {"y": TensorSpec(shape, x.dtype)}


def parts(size: int, x: Array, y: Array) -> Iterator[tuple[Array, Array]]:
    deep, wide = blocks(y, x, size)
    yield wide, deep


OP = block_move(
    "SPACE_TO_DEPTH",
    parts,
    infer,
    block_attrs,
    quantized=QuantizedDef(versions={"INT8": 2}, int8=True, same="output", values="moved"),
)
