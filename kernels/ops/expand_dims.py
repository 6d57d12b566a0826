"""EXPAND_DIMS: inserts an axis of length 1 into the shape of x."""

from collections.abc import Mapping

from odt.dataclass import dataclass
from odt.kernels.families.reshape import FORWARD, GRAD_X
from odt.kernels.geometry.axes import new_axis
from odt.kernels.geometry.statics import number
from odt.kernels.rows.opdef import Array, Names, OpDef, Options, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef


@dataclass(frozen=True, slots=True)
class ExpandDimsAttrs:
    axis: int


def attrs(options: Options, statics: Mapping[str, Array]) -> ExpandDimsAttrs:
    return ExpandDimsAttrs(number("axis", statics))


def infer(attrs: ExpandDimsAttrs, s: Specs) -> Specs:
    x = s["x"]
    at = new_axis(attrs.axis, len(x.shape))
    return {"y": TensorSpec((*x.shape[:at], 1, *x.shape[at:]), x.dtype)}


def mixes_samples(attrs: ExpandDimsAttrs, s: Specs, batched: Names) -> bool:
    return new_axis(attrs.axis, len(s["x"].shape)) == 0


OP = OpDef(
    "EXPAND_DIMS",
    inputs=("x", "axis"),
    infer=infer,
    forward=FORWARD,
    grads={"x": GRAD_X},
    static=("axis",),
    attrs=attrs,
    mixes_samples=mixes_samples,
    takes_complex=True,
    quantized=QuantizedDef(
        int8=True, int16=True, same="output", values="moved", checks_scales=True
    ),
)
