"""RELU_N1_TO_1: y = min(max(x, −1), 1), element by element.

dx = dy where −1 < y < 1, else 0 (so 0 at both kinks, as for RELU6).
"""

import numpy as np

from odt.kernels.elementwise import IN_PLACE, IN_PLACE_BACK, masks_like_y, same_as_x
from odt.kernels.opdef import Array, Kernel, OpDef


def forward(attrs: None, *, x: Array, y: Array) -> None:
    np.clip(x, -1, 1, out=y)


def grad_x(attrs: None, *, dy: Array, y: Array, dx: Array, mask: Array, other: Array) -> None:
    np.greater(y, -1, out=mask)
    np.less(y, 1, out=other)
    np.logical_and(mask, other, out=mask)
    np.multiply(dy, mask, out=dx)


OP = OpDef(
    "RELU_N1_TO_1",
    inputs=("x",),
    infer=same_as_x,
    forward=Kernel(forward, reads=("x",), writes=("y",), may_alias=IN_PLACE),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "y"),
            writes=("dx",),
            workspace=masks_like_y,
            may_alias=IN_PLACE_BACK,
        )
    },
)
