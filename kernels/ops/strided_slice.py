"""STRIDED_SLICE: part of x, along each axis from begin to end in steps of stride.

Bits of the masks: begin_mask and end_mask leave an end open, shrink_axis_mask selects one index and
removes the axis, new_axis_mask adds an axis of length 1, ellipsis_mask covers the remaining axes.
With offset, an end counts from its begin.

dx is dy at the entries that were read, 0 elsewhere.
Source: StridedSliceOptions in the TFLite schema, and the definition of tf.strided_slice.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.copies import slicing
from odt.kernels.geometry.axes import moved_entries
from odt.kernels.rows.opdef import Array, Names, OpDef, Options, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef

Entry = slice | int | None
MASKS = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")


@dataclass(frozen=True, slots=True)
class SliceAttrs:
    begin: tuple[int, ...]
    end: tuple[int, ...]
    strides: tuple[int, ...]
    begin_mask: int
    end_mask: int
    ellipsis_mask: int
    new_axis_mask: int
    shrink_axis_mask: int
    offset: int = 0


def attrs(options: Options, statics: Mapping[str, Array]) -> SliceAttrs:
    begin, end, strides = (
        tuple(int(v) for v in np.ravel(statics[n])) for n in ("begin", "end", "strides")
    )
    if not len(begin) == len(end) == len(strides) or 0 in strides:
        raise ShapeError(
            "begin, end and strides must be as long as each other and no stride 0, "
            f"but got {begin}, {end}, {strides}"
        )
    names = (*(f"{m}_mask" for m in MASKS), "offset")
    return SliceAttrs(begin, end, strides, *(int(options.get(n, 0)) for n in names))


def index(attrs: SliceAttrs, x: TensorSpec) -> tuple[Entry, ...]:
    """Returns the index of the slice: one entry for each axis of x and each new axis."""
    count, rank = len(attrs.begin), len(x.shape)
    bits = [1 << k for k in range(count)]
    new = sum(bool(attrs.new_axis_mask & b and not attrs.ellipsis_mask & b) for b in bits)
    ellipses = sum(bool(attrs.ellipsis_mask & b) for b in bits)
    missing = rank - (count - new - ellipses)
    if missing < 0 or ellipses > 1:
        raise ShapeError(f"begin must have at most an entry for each axis, but got {count}, x {x}")
    entries: list[Entry] = []
    axis = 0
    for k, bit in enumerate(bits):
        if attrs.ellipsis_mask & bit:
            entries += [slice(None)] * missing
            axis += missing
        elif attrs.new_axis_mask & bit:
            entries.append(None)
        else:
            entries.append(_entry(attrs, k, bit, x.shape[axis]))
            axis += 1
    return (*entries, *([slice(None)] * (rank - axis)))


def _entry(attrs: SliceAttrs, k: int, bit: int, size: int) -> Entry:
    """Returns the entry k of the index, whose masks have the bit, for an axis of this size."""
    begin, end, stride = attrs.begin[k], attrs.end[k], attrs.strides[k]
    if attrs.shrink_axis_mask & bit:
        if not -size <= begin < size:
            raise ShapeError(f"begin must be within −{size} … {size - 1}, but got {begin}")
        return begin
    begins_open = bool(attrs.begin_mask & bit)
    if attrs.offset and begins_open:
        end += 0 if stride > 0 else size - 1
    elif attrs.offset:
        end += begin + size if begin < 0 else begin
    # An end below −size means: down to and including the first entry.
    ends_open = bool(attrs.end_mask & bit) or (stride < 0 and end < -size)
    return slice(None if begins_open else begin, None if ends_open else end, stride)


def infer(attrs: SliceAttrs, s: Specs) -> Specs:
    x = s["x"]
    shape, axis = [], 0
    for entry in index(attrs, x):
        if entry is None:
            shape.append(1)
            continue
        if isinstance(entry, slice):
            shape.append(len(range(*entry.indices(x.shape[axis]))))
        axis += 1
    return {"y": TensorSpec(tuple(shape), x.dtype)}


def is_all(entry: Entry, size: int) -> bool:
    return isinstance(entry, slice) and range(*entry.indices(size)) == range(size)


def scale_batch(attrs: SliceAttrs, s: Specs, times: int) -> SliceAttrs:
    """Scales a slice that covers all of axis 0 to all of a larger batch."""
    if cuts_samples(attrs, s) or not attrs.begin or attrs.ellipsis_mask & 1:
        return attrs
    return replace(attrs, begin_mask=attrs.begin_mask | 1, end_mask=attrs.end_mask | 1)


def cuts_samples(attrs: SliceAttrs, s: Specs) -> bool:
    x = s["x"]
    return not x.shape or not is_all(index(attrs, x)[0], x.shape[0])


def add_batch_axis(attrs: SliceAttrs, samples: int) -> SliceAttrs:
    """Adds a full slice of the new axis before the others."""
    begin_mask, end_mask, *masks = (getattr(attrs, f"{m}_mask") << 1 for m in MASKS)
    return SliceAttrs(
        (0, *attrs.begin),
        (0, *attrs.end),
        (1, *attrs.strides),
        begin_mask | 1,
        end_mask | 1,
        *masks,
    )


def permute(attrs: SliceAttrs, perm: tuple[int, ...]) -> SliceAttrs:
    """Permutes positions and masks; raises ShapeError if the slice adds or removes axes."""
    if attrs.ellipsis_mask or attrs.new_axis_mask or attrs.shrink_axis_mask:
        raise ShapeError("a slice that adds or removes axes cannot be permuted")
    absent = len(perm) - len(attrs.begin)  # the last axes, which are not sliced
    begin, end, strides = (
        moved_entries((*values, *[fill] * absent), perm)
        for values, fill in ((attrs.begin, 0), (attrs.end, 0), (attrs.strides, 1))
    )
    rest = sum(1 << k for k in range(len(attrs.begin), len(perm)))  # both ends of those are open
    begin_mask, end_mask = (
        sum(1 << perm[k] for k in range(len(perm)) if (mask | rest) >> k & 1)
        for mask in (attrs.begin_mask, attrs.end_mask)
    )
    return replace(
        attrs, begin=begin, end=end, strides=strides, begin_mask=begin_mask, end_mask=end_mask
    )


def mixes_samples(attrs: SliceAttrs, s: Specs, batched: Names) -> bool:
    return cuts_samples(attrs, s)


def prepare(attrs: SliceAttrs, s: Specs) -> Mapping[str, Any]:
    return {"at": index(attrs, s["x"])}


FORWARD, GRAD_X = slicing(prepare)
OP = OpDef(
    "STRIDED_SLICE",
    inputs=("x", "begin", "end", "strides"),
    infer=infer,
    forward=FORWARD,
    grads={"x": GRAD_X},
    static=("begin", "end", "strides"),
    attrs=attrs,
    scale_batch=scale_batch,
    mixes_samples=mixes_samples,
    add_batch_axis=add_batch_axis,
    permute=permute,
    quantized=QuantizedDef(
        versions={"INT8": 2}, int8=True, int16=True, same="output", values="moved"
    ),
)
