"""PACK: stacks tensors of one shape along a new axis.

dxₖ is the k-th entry of dy along that axis. Source: PackOptions in the TFLite schema.
"""

from collections.abc import Mapping
from typing import Any

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.split_concat import concatenating
from odt.kernels.geometry.axes import later_axis, new_axis
from odt.kernels.rows.opdef import Array, Names, OpDef, Options, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef


@dataclass(frozen=True, slots=True)
class PackAttrs:
    axis: int


def attrs(options: Options, statics: Mapping[str, Array]) -> PackAttrs:
    return PackAttrs(int(options.get("axis", 0)))


def infer(attrs: PackAttrs, s: Specs) -> Specs:
    parts = [spec for name, spec in s.items() if name.startswith("xs")]
    if not parts or any(p != parts[0] for p in parts):
        raise ShapeError(f"xs must be alike, but got {', '.join(map(str, parts)) or 'none'}")
    shape = parts[0].shape
    at = new_axis(attrs.axis, len(shape))
    return {"y": TensorSpec((*shape[:at], len(parts), *shape[at:]), parts[0].dtype)}


def mixes_samples(attrs: PackAttrs, s: Specs, batched: Names) -> bool:
    return new_axis(attrs.axis, len(s["xs0"].shape)) == 0


def prepare(attrs: PackAttrs, s: Specs) -> Mapping[str, Any]:
    axis = new_axis(attrs.axis, len(s["y"].shape) - 1)
    return {"at": tuple((*(slice(None),) * axis, k, ...) for k in range(s["y"].shape[axis]))}


FORWARD, GRAD = concatenating(prepare)
OP = OpDef(
    "PACK",
    inputs=("xs*",),
    infer=infer,
    forward=FORWARD,
    grads={"xs*": GRAD},
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=later_axis,
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 3},
        int8=True,
        int16=True,
        same="all",
        values="moved",
        checks_scales=True,
    ),
)
