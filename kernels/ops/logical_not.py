"""LOGICAL_NOT: y = not x, element by element."""

import numpy as np

from odt.kernels.families.elementwise import IN_PLACE, bool_like_x
from odt.kernels.geometry.axes import same
from odt.kernels.native.typed import LOGICAL_NOT
from odt.kernels.rows.opdef import Array, Kernel, OpDef


def forward(attrs: None, *, x: Array, y: Array) -> None:
    np.logical_not(x, out=y)


OP = OpDef(
    "LOGICAL_NOT",
    inputs=("x",),
    infer=bool_like_x,
    forward=Kernel(forward, reads=("x",), writes=("y",), may_alias=IN_PLACE, compiled=LOGICAL_NOT),
    grads={},
    stops=("x",),
    permute=same,
)
