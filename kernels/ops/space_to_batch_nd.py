"""SPACE_TO_BATCH_ND: pads the spatial axes and moves their blocks into axis 0.

x (N, S…, R…)    block (M,), paddings (M, 2): static    y (N·Πb, (S + before + after)/b…, R…)

dx is dy moved back. Source: tf.space_to_batch_nd.
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
    # The block covers the first axes of x after `axis`; the others stay as they are.
    axes = zip(x.shape[attrs.axis + 1 :], attrs.edges, strict=False)
    sizes = [n + lo + hi for n, (lo, hi) in axes]
    if any(n % b for n, b in zip(sizes, attrs.block, strict=True)):
        raise ShapeError(
            f"each entry of block must divide its padded axis of {tuple(sizes)}, but got "
            f"{attrs.block}, x {x}"
        )
    space = [n // b for n, b in zip(sizes, attrs.block, strict=True)]
    return resized(attrs, x, x.shape[attrs.axis] * larger, space)


def parts(attrs: BatchAttrs, x: Array, y: Array) -> Iterator[tuple[Array, Array]]:
    yield from places(attrs, x, y)


OP = block_move(
    "SPACE_TO_BATCH_ND",
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
