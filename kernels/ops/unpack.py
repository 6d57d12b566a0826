"""UNPACK: splits x into its entries along an axis, and removes the axis.

dx is the gradients of the entries, stacked. Source: UnpackOptions in the TFLite schema.
"""

from collections.abc import Mapping
from typing import Any

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.split_concat import check_outputs, cutting, place
from odt.kernels.geometry.axes import later_axis
from odt.kernels.rows.opdef import Array, Names, OpDef, Options, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef


@dataclass(frozen=True, slots=True)
class UnpackAttrs:
    axis: int
    entries: int


def attrs(options: Options, statics: Mapping[str, Array]) -> UnpackAttrs:
    entries = int(options.get("num", 0))
    check_outputs("num", entries, options)
    return UnpackAttrs(int(options.get("axis", 0)), entries)


def infer(attrs: UnpackAttrs, s: Specs) -> Specs:
    x = s["x"]
    axis = place(attrs.axis, len(x.shape))
    if x.shape[axis] != attrs.entries:
        raise ShapeError(f"num must be the length of axis {axis}, but got {attrs.entries}, x {x}")
    entry = TensorSpec((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype)
    return {f"ys{k}": entry for k in range(attrs.entries)}


def mixes_samples(attrs: UnpackAttrs, s: Specs, batched: Names) -> bool:
    return place(attrs.axis, len(s["x"].shape)) == 0


def prepare(attrs: UnpackAttrs, s: Specs) -> Mapping[str, Any]:
    before = (slice(None),) * place(attrs.axis, len(s["x"].shape))
    return {"at": tuple((*before, k, ...) for k in range(attrs.entries))}


FORWARD, GRADS = cutting(prepare)
OP = OpDef(
    "UNPACK",
    inputs=("x",),
    infer=infer,
    forward=FORWARD,
    grads=GRADS,
    outputs=("ys*",),
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=later_axis,
    quantized=QuantizedDef(
        versions={"INT8": 2, "UINT8": 2, "INT16": 4},
        int8=True,
        same="output",
        values="moved",
        checks_scales=True,
    ),
)
