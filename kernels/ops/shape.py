"""SHAPE: the lengths of the axes of x; reads no values of x and has no gradient."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.rows.opdef import Array, Kernel, OpDef, Options, Specs, TensorSpec

# TensorType of the schema → dtype; its default, 0, means INT32 in files.
DTYPES: Mapping[int, np.dtype[Any]] = {
    0: np.dtype(np.int32),
    2: np.dtype(np.int32),
    4: np.dtype(np.int64),
}


@dataclass(frozen=True, slots=True)
class ShapeAttrs:
    dtype: np.dtype[Any]


def attrs(options: Options, statics: Mapping[str, Array]) -> ShapeAttrs:
    code = options.get("out_type", 0)
    if code not in DTYPES:
        raise ShapeError(f"out_type must be INT32 (2) or INT64 (4), but got {code}")
    return ShapeAttrs(DTYPES[code])


def infer(attrs: ShapeAttrs, s: Specs) -> Specs:
    return {"y": TensorSpec((len(s["x"].shape),), attrs.dtype)}


def prepare(attrs: ShapeAttrs, s: Specs) -> Mapping[str, Any]:
    return {"shape": s["x"].shape}


def forward(attrs: ShapeAttrs, *, y: Array, shape: tuple[int, ...]) -> None:
    y[...] = shape


OP = OpDef(
    "SHAPE",
    inputs=("x",),
    infer=infer,
    forward=Kernel(forward, reads=(), writes=("y",), prepare=prepare),
    grads={},
    stops=("x",),
    attrs=attrs,
    takes_complex=True,
)
