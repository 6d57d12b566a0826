"""SPLIT: splits x along an axis into parts of equal length.

dx is the concatenated gradients of the parts. Source: SplitOptions in the TFLite schema.
"""

from collections.abc import Mapping
from typing import Any

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.split_concat import check_outputs, cutting, place, places
from odt.kernels.geometry.axes import later_axis, moved_axis
from odt.kernels.geometry.statics import number
from odt.kernels.rows.opdef import Array, Names, OpDef, Options, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef


@dataclass(frozen=True, slots=True)
class SplitAttrs:
    axis: int
    parts: int


def attrs(options: Options, statics: Mapping[str, Array]) -> SplitAttrs:
    parts = int(options.get("num_splits", 0))
    check_outputs("num_splits", parts, options)
    return SplitAttrs(number("axis", statics), parts)


def infer(attrs: SplitAttrs, s: Specs) -> Specs:
    x = s["x"]
    axis = place(attrs.axis, len(x.shape))
    if attrs.parts < 1 or x.shape[axis] % attrs.parts:
        raise ShapeError(f"num_splits must divide axis {axis} of x, but got {attrs.parts}, x {x}")
    shape = (*x.shape[:axis], x.shape[axis] // attrs.parts, *x.shape[axis + 1 :])
    return {f"ys{k}": TensorSpec(shape, x.dtype) for k in range(attrs.parts)}


def mixes_samples(attrs: SplitAttrs, s: Specs, batched: Names) -> bool:
    return place(attrs.axis, len(s["x"].shape)) == 0


def prepare(attrs: SplitAttrs, s: Specs) -> Mapping[str, Any]:
    axis = place(attrs.axis, len(s["x"].shape))
    return {"at": places(axis, (s["ys0"].shape[axis],) * attrs.parts)}


FORWARD, GRADS = cutting(prepare)
OP = OpDef(
    "SPLIT",
    inputs=("axis", "x"),
    infer=infer,
    forward=FORWARD,
    grads=GRADS,
    static=("axis",),
    outputs=("ys*",),
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=later_axis,
    permute=moved_axis,
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 4}, int8=True, int16=True, same="output", values="moved"
    ),
)
