"""SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND.

Pixels of an image that are one block apart form a smaller image in a larger batch, or the reverse.
Old files contain dilated convolutions in this form.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.rows.opdef import Array, Names, Options, Specs, TensorSpec


@dataclass(frozen=True, slots=True)
class BatchAttrs:
    """Side length of the block and padding (or crop) before and after, for each spatial axis.

    Attributes:
        axis: axis of the images; 1 if samples have a separate axis before it.
    """

    block: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]
    axis: int = 0


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
    """Checks the attributes and returns the number of elements of a block.

    Raises:
        ShapeError: if x has too few axes, or a number is out of range.
    """
    numbers = (*attrs.block, *(e + 1 for pair in attrs.edges for e in pair))
    if len(x.shape) <= attrs.axis + len(attrs.block) or min(numbers, default=1) < 1:
        raise ShapeError(
            "block must be 1 or more, and paddings or crops 0 or more, for axes of x after the "
            f"first, but got {attrs.block}, {attrs.edges}, x {x}"
        )
    return prod(attrs.block)


def resized(
    attrs: BatchAttrs, x: TensorSpec, images: int, sizes: Sequence[int]
) -> Mapping[str, TensorSpec]:
    """Returns the specs of y: x with another number of images and other sizes of its axes."""
    lead, rest = x.shape[: attrs.axis], x.shape[attrs.axis + 1 + len(sizes) :]
    return {"y": TensorSpec((*lead, images, *sizes, *rest), x.dtype)}


def mixes_samples(attrs: BatchAttrs, s: Specs, batched: Names) -> bool:
    """Whether the images of a sample lie apart in the larger batch."""
    return attrs.axis == 0 and prod(attrs.block) != 1


def add_batch_axis(attrs: BatchAttrs, samples: int) -> BatchAttrs:
    return replace(attrs, axis=attrs.axis + 1)


def places(attrs: BatchAttrs, space: Array, batch: Array) -> Iterator[tuple[Array, Array]]:
    """Yields pairs of equal parts of the large images and of the batch of small images.

    Element k of the image at `offset` in the block is element k·b + offset − before.
    """
    first_axis = attrs.axis + 1
    n, lead = space.shape[attrs.axis], [slice(None)] * attrs.axis
    sizes, counts = space.shape[first_axis:], batch.shape[first_axis:]
    for number, offsets in enumerate(product(*map(range, attrs.block))):
        space_index = [*lead, slice(None)]
        batch_index = [*lead, slice(number * n, (number + 1) * n)]
        # The block covers the first of these axes; those after them are copied whole.
        axes = zip(attrs.block, attrs.edges, offsets, sizes, counts, strict=False)
        for side, (before, _), offset, size, count in axes:
            first = max(-((offset - before) // side), 0)
            at = first * side + offset - before
            stop = min(count, first + max(-((at - size) // side), 0))
            space_index.append(slice(at, at + (stop - first) * side, side))
            batch_index.append(slice(first, stop))
        if all(s.start is None or s.stop > s.start for s in batch_index):
            yield space[tuple(space_index)], batch[tuple(batch_index)]
