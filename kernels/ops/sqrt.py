"""SQRT: y = √x, element by element; dx = dy / (2 y)."""

import numpy as np

from odt.kernels.families.elementwise import unary
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import Array


def forward(attrs: None, *, x: Array, y: Array) -> None:
    np.sqrt(x, out=y)


def grad_x(attrs: None, *, dy: Array, y: Array, dx: Array) -> None:
    np.divide(dy, y, out=dx)
    np.multiply(dx, 0.5, out=dx)


OP = unary(
    "SQRT",
    forward,
    grad_x,
    reads=("y",),
    over=("dy", "y"),
    compiled=elementwise.kernel("sqrt", "y", ("x",)),
    compiled_back=elementwise.kernel("divide", "dx", ("dy", "y"), 0.5),
)
