"""SPLIT_V: splits x along an axis into parts of given lengths; one may be −1 for the rest.

dx is the concatenated gradients of the parts. Source: SplitVOptions in the TFLite schema.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.split_concat import cutting, place, places
from odt.kernels.geometry.axes import later_axis, moved_axis
from odt.kernels.geometry.statics import number
from odt.kernels.rows.opdef import Array, Names, OpDef, Options, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef


@dataclass(frozen=True, slots=True)
class SplitVAttrs:
    axis: int
    sizes: tuple[int, ...]


def attrs(options: Options, statics: Mapping[str, Array]) -> SplitVAttrs:
    sizes = tuple(int(n) for n in np.ravel(statics["sizes"]))
    return SplitVAttrs(number("axis", statics), sizes)


def lengths(attrs: SplitVAttrs, x: TensorSpec) -> tuple[int, ...]:
    """Returns the lengths of the parts, with −1 replaced."""
    length = x.shape[place(attrs.axis, len(x.shape))]
    remainder = length - sum(n for n in attrs.sizes if n != -1)
    resolved = tuple(remainder if n == -1 else n for n in attrs.sizes)
    if not resolved or attrs.sizes.count(-1) > 1 or min(resolved) < 0 or sum(resolved) != length:
        raise ShapeError(f"sizes must make up axis {attrs.axis} of x, but got {attrs.sizes}, x {x}")
    return resolved


def infer(attrs: SplitVAttrs, s: Specs) -> Specs:
    x = s["x"]
    axis = place(attrs.axis, len(x.shape))
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    parts = enumerate(lengths(attrs, x))
    return {f"ys{k}": TensorSpec((*before, n, *after), x.dtype) for k, n in parts}


def mixes_samples(attrs: SplitVAttrs, s: Specs, batched: Names) -> bool:
    return place(attrs.axis, len(s["x"].shape)) == 0


def prepare(attrs: SplitVAttrs, s: Specs) -> Mapping[str, Any]:
    return {"at": places(place(attrs.axis, len(s["x"].shape)), lengths(attrs, s["x"]))}


FORWARD, GRADS = cutting(prepare)
OP = OpDef(
    "SPLIT_V",
    inputs=("x", "sizes", "axis"),
    infer=infer,
    forward=FORWARD,
    grads=GRADS,
    static=("sizes", "axis"),
    outputs=("ys*",),
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=later_axis,
    permute=moved_axis,
    quantized=QuantizedDef(versions={"INT8": 2}, int8=True, same="output", values="moved"),
)
