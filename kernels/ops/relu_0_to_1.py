"""RELU_0_TO_1: y = min(max(x, 0), 1), element by element.

dx = dy where 0 < y < 1, else 0 (so 0 at both kinks, as for RELU6).
"""

import numpy as np

from odt.kernels.elementwise import masks_like_y, same_as_x, unary
from odt.kernels.opdef import Array


def forward(attrs: None, *, x: Array, y: Array) -> None:
    np.clip(x, 0, 1, out=y)


def grad_x(attrs: None, *, dy: Array, y: Array, dx: Array, mask: Array, other: Array) -> None:
    np.greater(y, 0, out=mask)
    np.less(y, 1, out=other)
    np.logical_and(mask, other, out=mask)
    np.multiply(dy, mask, out=dx)


OP = unary(
    "RELU_0_TO_1",
    forward,
    grad_x,
    reads=("y",),
    over=("dy",),
    infer=same_as_x,
    back_workspace=masks_like_y,
)
