"""SEGMENT_SUM: sums of the entries of x with the same segment number; the numbers ascend.

x (S, R…)    segments (S,) of integers, static    y (K, R…), where K − 1 is the last number

A number that is left out has the sum 0. dx of an entry is dy of its segment.
Source: tf.math.segment_sum.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.geometry.axes import later_axis
from odt.kernels.rows.opdef import Array, Kernel, Names, OpDef, Options, Specs, TensorSpec


@dataclass(frozen=True, slots=True)
class SegmentAttrs:
    """Segment number of each entry, and the axis of the entries."""

    segments: tuple[int, ...]
    axis: int = 0


def attrs(options: Options, statics: Mapping[str, Array]) -> SegmentAttrs:
    return SegmentAttrs(tuple(int(n) for n in np.ravel(statics["segments"])))


def infer(attrs: SegmentAttrs, s: Specs) -> Specs:
    x, segments = s["x"], attrs.segments
    if x.shape[attrs.axis : attrs.axis + 1] != (len(segments),):
        raise ShapeError(f"segments must number the {len(segments)} entries of x, but got x {x}")
    if list(segments) != sorted(segments) or min(segments, default=0) < 0:
        raise ShapeError(f"segments must be ascending, from 0 on, but got {segments[:8]}")
    shape = list(x.shape)
    shape[attrs.axis] = segments[-1] + 1 if segments else 0
    return {"y": TensorSpec(tuple(shape), x.dtype)}


def mixes_samples(attrs: SegmentAttrs, s: Specs, batched: Names) -> bool:
    return attrs.axis == 0


def prepare(attrs: SegmentAttrs, s: Specs) -> Mapping[str, Array]:
    """Prepares the first entry of each segment, and the number of entries."""
    numbers = range(max(attrs.segments, default=-1) + 2)
    return {"ends": np.searchsorted(attrs.segments, numbers)}


def parts(attrs: SegmentAttrs, x: Array, y: Array, ends: Array) -> Iterator[tuple[Array, Array]]:
    """Yields the entries of each segment, and its sum with axis 0 of length 1."""
    x, y = (np.moveaxis(a, attrs.axis, 0) for a in (x, y))
    for k in range(len(y)):
        yield x[ends[k] : ends[k + 1]], y[k : k + 1]


def forward(attrs: SegmentAttrs, *, x: Array, y: Array, ends: Array) -> None:
    for entries, total in parts(attrs, x, y, ends):
        np.add.reduce(entries, axis=0, dtype=y.dtype, keepdims=True, out=total)


def grad_x(attrs: SegmentAttrs, *, dy: Array, dx: Array, ends: Array) -> None:
    for entries, total in parts(attrs, dx, dy, ends):
        np.copyto(entries, total)


OP = OpDef(
    "SEGMENT_SUM",
    inputs=("x", "segments"),
    infer=infer,
    forward=Kernel(forward, reads=("x",), writes=("y",), prepare=prepare),
    grads={"x": Kernel(grad_x, reads=("dy",), writes=("dx",), prepare=prepare)},
    static=("segments",),
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=later_axis,
)
