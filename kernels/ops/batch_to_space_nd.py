"""BATCH_TO_SPACE_ND: moves axis 0 into blocks of the spatial axes, then crops.

x (N·Πb, S…, R…)    block (M,), crops (M, 2): static    y (N, S·b − before − after…, R…)

dx is dy moved back, and 0 for cropped values. Source: tf.batch_to_space_nd.
"""

from collections.abc import Iterator

from odt.errors import ShapeError
from odt.kernels.families.block_moves import block_move
from odt.kernels.families.space_batch import (
    BatchAttrs,
    add_batch_axis,
    batch_attrs,
    checked,
    mixes_samples,
    places,
    resized,
)
from odt.kernels.rows.opdef import Array, Specs
from odt.kernels.rows.quantizeddef import QuantizedDef


def infer(attrs: BatchAttrs, s: Specs) -> Specs:
    x = s["x"]
    larger = checked(attrs, x)
    images = x.shape[attrs.axis]
    # The block covers the first axes of x after `axis`; the others stay as they are.
    axes = zip(x.shape[attrs.axis + 1 :], attrs.block, attrs.edges, strict=False)
    sizes = [n * b - lo - hi for n, b, (lo, hi) in axes]
    if images % larger:
        raise ShapeError(
            f"the product of block must divide x's first axis, {images}, but got {larger}, of "
            f"{attrs.block}"
        )
    if min(sizes, default=1) < 1:
        raise ShapeError(
            f"crops must leave at least 1 of each axis, but got {attrs.edges}, block "
            f"{attrs.block}, x {x}"
        )
    return resized(attrs, x, images // larger, sizes)


def parts(attrs: BatchAttrs, x: Array, y: Array) -> Iterator[tuple[Array, Array]]:
    for space, batch in places(attrs, y, x):
        yield batch, space


OP = block_move(
    "BATCH_TO_SPACE_ND",
    parts,
    infer,
    batch_attrs,
    inputs=("x", "block", "edges"),
    mixes_samples=mixes_samples,
    add_batch_axis=add_batch_axis,
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 4},
        int8=True,
        same="output",
        values="kept",
        checks_scales=True,
    ),
)
