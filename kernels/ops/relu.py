"""RELU: y = max(x, 0), element by element.

dx = dy where y > 0, else 0 (so 0 at the kink, as in TFLite, PyTorch and onert).

Backward reads y, not x: that is what lets y take x's memory.
"""

import numpy as np

from odt.kernels.elementwise import mask_like_y, same_as_x
from odt.kernels.opdef import Array, Kernel, OpDef


def forward(attrs: None, *, x: Array, y: Array) -> None:
    np.clip(x, 0, np.inf, out=y)  # a quarter of the time of np.maximum with a scalar


def grad_x(attrs: None, *, dy: Array, y: Array, dx: Array, mask: Array) -> None:
    np.greater(y, 0, out=mask)
    np.multiply(dy, mask, out=dx)


OP = OpDef(
    "RELU",
    inputs=("x",),
    infer=same_as_x,
    forward=Kernel(forward, reads=("x",), writes=("y",), may_alias=frozenset({("y", "x")})),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "y"),
            writes=("dx",),
            workspace=mask_like_y,
            may_alias=frozenset({("dx", "dy")}),
        )
    },
)
