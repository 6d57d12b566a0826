"""DEQUANTIZE: y = s · (x − z), the real numbers that integers represent, element by element.

s is the scale and z the zero point, one of each for the whole tensor.
"""

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.geometry.axes import same
from odt.kernels.opdef import Array, Attrs, Kernel, OpDef, Options, Specs, TensorSpec

FLOAT32 = np.dtype(np.float32)


@dataclass(frozen=True, slots=True)
class DequantizeAttrs:
    """Scale and zero point."""

    scale: float
    zero_point: int


def attrs(options: Options, statics: object) -> DequantizeAttrs:
    if "scale" not in options:
        raise ShapeError("x must be quantized with one scale, but got none")
    return DequantizeAttrs(options["scale"], options["zero_point"])


def infer(attrs: Attrs, s: Specs) -> Specs:
    if s["x"].dtype.kind not in "iu":
        raise ShapeError(f"x must hold integers, but got {s['x']}")
    return {"y": TensorSpec(s["x"].shape, FLOAT32)}


def forward(attrs: DequantizeAttrs, *, x: Array, y: Array) -> None:
    np.subtract(x, attrs.zero_point, out=y, casting="unsafe", dtype=FLOAT32)
    np.multiply(y, attrs.scale, out=y)


OP = OpDef(
    "DEQUANTIZE",
    inputs=("x",),
    infer=infer,
    forward=Kernel(forward, reads=("x",), writes=("y",)),
    grads={},
    stops=("x",),
    attrs=attrs,
    permute=same,
)
