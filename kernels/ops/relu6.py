"""RELU6: y = min(max(x, 0), 6), element by element.

dx = dy where 0 < y < 6, else 0 (so 0 at both kinks, as in TFLite, PyTorch and onert).
"""

import numpy as np

from odt.kernels.elementwise import IN_PLACE, IN_PLACE_BACK, masks_like_y, same_as_x
from odt.kernels.opdef import Array, Kernel, OpDef


def forward(attrs: None, *, x: Array, y: Array) -> None:
    np.clip(x, 0, 6, out=y)


def grad_x(attrs: None, *, dy: Array, y: Array, dx: Array, mask: Array, other: Array) -> None:
    np.greater(y, 0, out=mask)
    np.less(y, 6, out=other)
    np.logical_and(mask, other, out=mask)
    np.multiply(dy, mask, out=dx)


OP = OpDef(
    "RELU6",
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
