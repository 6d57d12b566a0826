"""LOGICAL_NOT: y = not x, element by element."""

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.elementwise import BOOL, IN_PLACE
from odt.kernels.geometry.axes import same
from odt.kernels.opdef import Array, Kernel, OpDef, Specs


def infer(attrs: None, s: Specs) -> Specs:
    if s["x"].dtype != BOOL:
        raise ShapeError(f"x must be bool, but got {s['x']}")
    return {"y": s["x"]}


def forward(attrs: None, *, x: Array, y: Array) -> None:
    np.logical_not(x, out=y)


OP = OpDef(
    "LOGICAL_NOT",
    inputs=("x",),
    infer=infer,
    forward=Kernel(forward, reads=("x",), writes=("y",), may_alias=IN_PLACE),
    grads={},
    stops=("x",),
    permute=same,
)
