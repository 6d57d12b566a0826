"""SLICE: `size` entries of x from `begin`, along each axis; size −1 selects all entries to the end.

dx is dy at the entries that were read, 0 elsewhere.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.copies import slicing
from odt.kernels.geometry.axes import moved_entries
from odt.kernels.rows.opdef import Array, Names, OpDef, Options, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef


@dataclass(frozen=True, slots=True)
class SliceAttrs:
    begin: tuple[int, ...]
    size: tuple[int, ...]

    def at(self, x: TensorSpec) -> tuple[slice, ...]:
        """Returns the index of the slice in x."""
        slices = []
        if len(self.begin) == len(self.size) == len(x.shape):
            for b, n, length in zip(self.begin, self.size, x.shape, strict=True):
                end = length if n == -1 else b + n
                if 0 <= b <= end <= length:
                    slices.append(slice(b, end))
        if len(slices) != len(x.shape):
            raise ShapeError(
                f"begin and size must stay inside x, but got {self.begin}, {self.size}, x {x}"
            )
        return tuple(slices)


def attrs(options: Options, statics: Mapping[str, Array]) -> SliceAttrs:
    begin, size = (tuple(int(v) for v in np.ravel(statics[n])) for n in ("begin", "size"))
    return SliceAttrs(begin, size)


def infer(attrs: SliceAttrs, s: Specs) -> Specs:
    x = s["x"]
    return {"y": TensorSpec(tuple(e.stop - e.start for e in attrs.at(x)), x.dtype)}


def cuts_samples(attrs: SliceAttrs, s: Specs) -> bool:
    at = attrs.at(s["x"])
    return bool(at) and at[0] != slice(0, s["x"].shape[0])


def scale_batch(attrs: SliceAttrs, s: Specs, times: int) -> SliceAttrs:
    """Scales a slice that covers all of axis 0 to all of a larger batch."""
    if not attrs.size or cuts_samples(attrs, s):
        return attrs
    return SliceAttrs(attrs.begin, (-1, *attrs.size[1:]))


def add_batch_axis(attrs: SliceAttrs, samples: int) -> SliceAttrs:
    return SliceAttrs((0, *attrs.begin), (-1, *attrs.size))


def permute(attrs: SliceAttrs, perm: tuple[int, ...]) -> SliceAttrs:
    return SliceAttrs(moved_entries(attrs.begin, perm), moved_entries(attrs.size, perm))


def mixes_samples(attrs: SliceAttrs, s: Specs, batched: Names) -> bool:
    return cuts_samples(attrs, s)


def prepare(attrs: SliceAttrs, s: Specs) -> Mapping[str, Any]:
    return {"at": attrs.at(s["x"])}


FORWARD, GRAD_X = slicing(prepare)
OP = OpDef(
    "SLICE",
    inputs=("x", "begin", "size"),
    infer=infer,
    forward=FORWARD,
    grads={"x": GRAD_X},
    static=("begin", "size"),
    attrs=attrs,
    scale_batch=scale_batch,
    mixes_samples=mixes_samples,
    add_batch_axis=add_batch_axis,
    permute=permute,
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 4}, int8=True, int16=True, same="output", values="moved"
    ),
)
