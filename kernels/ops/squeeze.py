"""SQUEEZE: removes the given axes of length 1, or all of them if none are given.

Axis 0, the batch, is removed only if it is given; TFLite also removes it if its length is 1.
Source: SqueezeOptions in the TFLite schema.
"""

from collections.abc import Mapping

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.reshape import FORWARD, GRAD_X
from odt.kernels.rows.opdef import Array, Names, OpDef, Options, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef


@dataclass(frozen=True, slots=True)
class SqueezeAttrs:
    axes: tuple[int, ...]


def attrs(options: Options, statics: Mapping[str, Array]) -> SqueezeAttrs:
    return SqueezeAttrs(tuple(int(a) for a in options.get("squeeze_dims", ())))


def infer(attrs: SqueezeAttrs, s: Specs) -> Specs:
    x = s["x"]
    rank = len(x.shape)
    if not all(-rank <= a < rank and x.shape[a] == 1 for a in attrs.axes):
        raise ShapeError(f"squeeze_dims must be axes of length 1, but got {attrs.axes}, x {x}")
    axes = {a % rank for a in attrs.axes}
    if not axes:
        axes = {k for k in range(1, rank) if x.shape[k] == 1}
    shape = tuple(n for k, n in enumerate(x.shape) if k not in axes)
    return {"y": TensorSpec(shape, x.dtype)}


def mixes_samples(attrs: SqueezeAttrs, s: Specs, batched: Names) -> bool:
    return any(a in (0, -len(s["x"].shape)) for a in attrs.axes)


OP = OpDef(
    "SQUEEZE",
    inputs=("x",),
    infer=infer,
    forward=FORWARD,
    grads={"x": GRAD_X},
    attrs=attrs,
    mixes_samples=mixes_samples,
    takes_complex=True,
    quantized=QuantizedDef(int8=True, int16=True, same="output", values="moved"),
)
