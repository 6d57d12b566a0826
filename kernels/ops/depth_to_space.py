"""DEPTH_TO_SPACE: rearranges the channels of each pixel into a block of b × b pixels.

x (N, H, W, b²·C)    y (N, H·b, W·b, C)

dx is dy moved back. Source: DepthToSpaceOptions in the TFLite schema, tf.nn.depth_to_space.
"""

from collections.abc import Iterator

from odt.errors import ShapeError
from odt.kernels.families.block_moves import block_attrs, block_move, blocks, images
from odt.kernels.rows.opdef import Array, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef


def infer(size: int, s: Specs) -> Specs:
    x = images(s)
    n, height, width, channels = x.shape
    if size < 1 or channels % (size * size):
        raise ShapeError(f"block_size² must divide C of x, but got {size}, x {x}")
    shape = (n, height * size, width * size, channels // (size * size))
    return {"y": TensorSpec(shape, x.dtype)}


def parts(size: int, x: Array, y: Array) -> Iterator[tuple[Array, Array]]:
    yield blocks(x, y, size)


OP = block_move(
    "DEPTH_TO_SPACE",
    parts,
    infer,
    block_attrs,
    quantized=QuantizedDef(versions={"INT8": 2}, int8=True, same="output", values="moved"),
)
