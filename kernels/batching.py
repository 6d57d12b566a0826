"""SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND: pixels of an image that lie a block apart become an
image of their own in a larger batch, and back. Dilated convolutions are written so in old files.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from odt.errors import ShapeError
from odt.kernels.opdef import Array, Names, Options, Specs, TensorSpec


@dataclass(frozen=True, slots=True)
class BatchAttrs:
    """For each spatial axis the block's side, and values added (or cut off) before and after."""

    block: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]


def batch_attrs(options: Options, statics: Mapping[str, Array]) -> BatchAttrs:
    block, edges = statics["block"], np.asarray(statics["edges"])
    if edges.shape != (block.size, 2):
        raise ShapeError(
            f"paddings or crops must be two for each axis of the block, but got {edges.shape} for "
            f"{block.size}"
        )
    pairs = tuple((int(lo), int(hi)) for lo, hi in edges)
    return BatchAttrs(tuple(int(b) for b in np.ravel(block)), pairs)


def checked(attrs: BatchAttrs, x: TensorSpec) -> int:
    """The block's elements.

    Raises:
        ShapeError: if x has too few axes, or a number is out of range.
    """
    numbers = (*attrs.block, *(e + 1 for pair in attrs.edges for e in pair))
    if len(x.shape) <= len(attrs.block) or min(numbers, default=1) < 1:
        raise ShapeError(
            "block must be 1 or more, and paddings or crops 0 or more, for axes of x after the "
            f"first, but got {attrs.block}, {attrs.edges}, x {x}"
        )
    return prod(attrs.block)


def mixes(attrs: BatchAttrs, s: Specs, batched: Names) -> bool:
    """The images of a sample are not side by side in the larger batch."""
    return prod(attrs.block) != 1


def places(attrs: BatchAttrs, space: Array, batch: Array) -> Iterator[tuple[Array, Array]]:
    """Parts of the images in space and of those in the batch that are the same.

    Element k of the image at `offset` in the block is element k·b + offset − before.
    """
    n = space.shape[0]
    for number, offsets in enumerate(product(*map(range, attrs.block))):
        there, here = [slice(None)], [slice(number * n, (number + 1) * n)]
        axes = zip(
            attrs.block, attrs.edges, offsets, space.shape[1:], batch.shape[1:], strict=False
        )
        for side, (before, _), offset, size, count in axes:
            first = max(-((offset - before) // side), 0)
            at = first * side + offset - before
            stop = min(count, first + max(-((at - size) // side), 0))
            there.append(slice(at, at + (stop - first) * side, side))
            here.append(slice(first, stop))
        if all(s.start is None or s.stop > s.start for s in here):
            yield space[tuple(there)], batch[tuple(here)]
