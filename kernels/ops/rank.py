"""RANK: the number of axes of x; reads no values of x and has no gradient."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.kernels.rows.opdef import Array, Kernel, OpDef, Specs, TensorSpec

INT32 = np.dtype(np.int32)


def infer(attrs: None, s: Specs) -> Specs:
    return {"y": TensorSpec((), INT32)}


def prepare(attrs: None, s: Specs) -> Mapping[str, Any]:
    return {"rank": len(s["x"].shape)}


def forward(attrs: None, *, y: Array, rank: int) -> None:
    y[...] = rank


OP = OpDef(
    "RANK",
    inputs=("x",),
    infer=infer,
    forward=Kernel(forward, reads=(), writes=("y",), prepare=prepare),
    grads={},
    stops=("x",),
    takes_complex=True,
)
