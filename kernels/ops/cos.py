"""COS: y = cos x, element by element; dx = −dy · sin x."""

import numpy as np

from odt.kernels.families.elementwise import unary
from odt.kernels.native.scans import sines, sines_back
from odt.kernels.rows.opdef import Array


def forward(attrs: None, *, x: Array, y: Array) -> None:
    np.cos(x, out=y)


def grad_x(attrs: None, *, dy: Array, x: Array, dx: Array) -> None:
    np.sin(x, out=dx)
    np.multiply(dx, dy, out=dx)
    np.negative(dx, out=dx)


OP = unary(
    "COS",
    forward,
    grad_x,
    reads=("x",),
    over=("x",),
    compiled=sines(1),
    compiled_back=sines_back(0, -1.0),
)
