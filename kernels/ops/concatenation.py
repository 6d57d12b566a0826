"""CONCATENATION: joins tensors along an axis.

dxₖ is the part of dy at the position of xₖ. Source: ConcatenationOptions in the TFLite schema.
"""

from collections.abc import Mapping
from typing import Any

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.split_concat import concatenating, numbered, place, places
from odt.kernels.geometry.axes import later_axis, moved_axis
from odt.kernels.rows.opdef import Array, Names, OpDef, Options, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef


@dataclass(frozen=True, slots=True)
class ConcatenationAttrs:
    axis: int


def attrs(options: Options, statics: Mapping[str, Array]) -> ConcatenationAttrs:
    return ConcatenationAttrs(int(options.get("axis", 0)))


def infer(attrs: ConcatenationAttrs, s: Specs) -> Specs:
    parts = [s[n] for n in numbered("xs", s)]
    at = place(attrs.axis, len(parts[0].shape)) if parts else 0
    if len({(p.shape[:at], p.shape[at + 1 :], len(p.shape), p.dtype) for p in parts}) != 1:
        raise ShapeError(
            f"xs must be alike but for axis {attrs.axis}, "
            f"but got {', '.join(map(str, parts)) or 'none'}"
        )
    length = sum(p.shape[at] for p in parts)
    shape = (*parts[0].shape[:at], length, *parts[0].shape[at + 1 :])
    return {"y": TensorSpec(shape, parts[0].dtype)}


def mixes_samples(attrs: ConcatenationAttrs, s: Specs, batched: Names) -> bool:
    return place(attrs.axis, len(s["xs0"].shape)) == 0


def prepare(attrs: ConcatenationAttrs, s: Specs) -> Mapping[str, Any]:
    axis = place(attrs.axis, len(s["y"].shape))
    return {"at": places(axis, tuple(s[n].shape[axis] for n in numbered("xs", s)))}


FORWARD, GRAD = concatenating(prepare)
OP = OpDef(
    "CONCATENATION",
    inputs=("xs*",),
    infer=infer,
    forward=FORWARD,
    grads={"xs*": GRAD},
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=later_axis,
    permute=moved_axis,
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 3},
        int8=True,
        int16=True,
        same="all",
        values="moved",
        checks_scales=True,
    ),
)
