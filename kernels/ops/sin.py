"""SIN: y = sin x, element by element; dx = dy · cos x."""

import numpy as np

from odt.kernels.families.elementwise import unary
from odt.kernels.native.scans import sines, sines_back
from odt.kernels.rows.opdef import Array


def forward(attrs: None, *, x: Array, y: Array) -> None:
    np.sin(x, out=y)


def grad_x(attrs: None, *, dy: Array, x: Array, dx: Array) -> None:
    np.cos(x, out=dx)
    np.multiply(dx, dy, out=dx)


OP = unary(
    "SIN",
    forward,
    grad_x,
    reads=("x",),
    over=("x",),
    compiled=sines(0),
    compiled_back=sines_back(1, 1.0),
)
