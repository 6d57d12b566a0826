"""NEG: y = −x, element by element; dx = −dy."""

import numpy as np

from odt.kernels.families.elementwise import number_like_x, unary
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import Array


def forward(attrs: None, *, x: Array, y: Array) -> None:
    np.negative(x, out=y)


def grad_x(attrs: None, *, dy: Array, dx: Array) -> None:
    np.negative(dy, out=dx)


OP = unary(
    "NEG",
    forward,
    grad_x,
    reads=(),
    over=("dy",),
    infer=number_like_x,
    compiled=elementwise.kernel("scale", "y", ("x",), -1),
    compiled_back=elementwise.kernel("scale", "dx", ("dy",), -1),
)
