"""EXP: y = eˣ, element by element; dx = dy · y."""

import numpy as np

from odt.kernels.elementwise import unary
from odt.kernels.native import maps
from odt.kernels.opdef import Array


def forward(attrs: None, *, x: Array, y: Array) -> None:
    np.exp(x, out=y)


def grad_x(attrs: None, *, dy: Array, y: Array, dx: Array) -> None:
    np.multiply(dy, y, out=dx)


OP = unary(
    "EXP",
    forward,
    grad_x,
    reads=("y",),
    over=("dy", "y"),
    compiled=maps.of("exp", "y", ("x",)),
    compiled_back=maps.of("multiply", "dx", ("dy", "y")),
)
