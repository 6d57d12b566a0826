"""HARD_SWISH: y = x · min(max(x + 3, 0), 6) / 6, element by element.

dx = dy if x ≥ 3, 0 if x ≤ −3, else dy (2 x + 3) / 6. Source: Howard et al. 2019,
"Searching for MobileNetV3".
"""

import numpy as np

from odt.kernels.families.elementwise import part_and_mask, part_like_y, unary
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import Array
from odt.kernels.rows.quantizeddef import QuantizedDef


def clamp(x: Array, part: Array) -> None:
    np.add(x, 3, out=part)
    np.maximum(part, 0, out=part)
    np.minimum(part, 6, out=part)


def forward(attrs: None, *, x: Array, y: Array, part: Array) -> None:
    clamp(x, part)
    np.multiply(x, part, out=y)
    np.divide(y, 6, out=y)


def grad_x(attrs: None, *, dy: Array, x: Array, dx: Array, part: Array, mask: Array) -> None:
    clamp(x, part)
    np.absolute(x, out=dx)
    np.less(dx, 3, out=mask)
    np.multiply(x, mask, out=dx)
    np.add(dx, part, out=dx)
    np.multiply(dx, dy, out=dx)
    np.divide(dx, 6, out=dx)


OP = unary(
    "HARD_SWISH",
    forward,
    grad_x,
    reads=("x",),
    workspace=part_like_y,
    back_workspace=part_and_mask,
    compiled=elementwise.kernel("hard_swish", "y", ("x",)),
    compiled_back=elementwise.kernel("hard_swish_back", "dx", ("dy", "x")),
    quantized=QuantizedDef(int8=True, bytes_only=True),
)
