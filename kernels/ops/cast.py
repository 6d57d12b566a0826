"""CAST: converts x to the dtype of y in the file; as bool, y is x ≠ 0.

Floats become integers by rounding towards 0, limited to the range of the dtype; NaN becomes its
largest integer, as in LiteRT. Integers of more bits lose their highest ones. Complex numbers become
their real parts. dx is dy converted to the dtype of x; between integers and floats there is no
gradient. A cast to the same dtype is a view.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.complex_parts import fitting_part
from odt.kernels.geometry.axes import same
from odt.kernels.native.typed import CAST
from odt.kernels.rows.opdef import Array, Kernel, OpDef, Options, Specs, TensorSpec

AT_ONCE = 4096  # values that are limited at a time


@dataclass(frozen=True, slots=True)
class CastAttrs:
    dtype: np.dtype[Any]


def attrs(options: Options, statics: Mapping[str, Array]) -> CastAttrs:
    return CastAttrs(options["output_types"][0])


def infer(attrs: CastAttrs, s: Specs) -> Specs:
    kinds = attrs.dtype.kind + s["x"].dtype.kind
    if any(k not in "fiubc" for k in kinds):
        raise ShapeError(f"x and y must be numbers, but got x {s['x']}, y {attrs.dtype}")
    return {"y": TensorSpec(s["x"].shape, attrs.dtype)}


def is_same(attrs: CastAttrs, s: Specs) -> bool:
    return s["x"].dtype == attrs.dtype


def forward(attrs: CastAttrs, *, x: Array, y: Array) -> None:
    part = fitting_part(x, y)
    if part.dtype.kind == "f" and y.dtype.kind in "iu":
        truncate(part.reshape(-1), y.reshape(-1))
    else:
        np.copyto(y, part, casting="unsafe")


def truncate(x: Array, y: Array) -> None:
    """Rounds floats towards 0, to integers in the range of y; both have one axis."""
    info = np.iinfo(y.dtype)
    wide = np.promote_types(x.dtype, np.float32)  # float16 has no number for some limits
    for k in range(0, x.size, AT_ONCE):
        part = x[k : k + AT_ONCE].astype(wide)
        is_largest = ~(part < float(info.max) + 1)  # also for NaN
        part[is_largest] = 0
        np.maximum(part, float(info.min), out=part)
        out = y[k : k + AT_ONCE]
        np.copyto(out, part, casting="unsafe")
        out[is_largest] = info.max


def grad_x(attrs: CastAttrs, *, dy: Array, dx: Array) -> None:
    np.copyto(dx, fitting_part(dy, dx), casting="same_kind")


OP = OpDef(
    "CAST",
    inputs=("x",),
    infer=infer,
    forward=Kernel(forward, reads=("x",), writes=("y",), view=is_same, compiled=CAST),
    grads={"x": Kernel(grad_x, reads=("dy",), writes=("dx",), view=is_same)},
    attrs=attrs,
    takes_complex=True,
    permute=same,
)
