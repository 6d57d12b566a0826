"""SQUARE: y = x², element by element; dx = 2 x dy."""

import numpy as np

from odt.kernels.families.elementwise import number_like_x, unary
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import Array
from odt.kernels.rows.quantizeddef import QuantizedDef


def forward(attrs: None, *, x: Array, y: Array) -> None:
    np.multiply(x, x, out=y)


def grad_x(attrs: None, *, dy: Array, x: Array, dx: Array) -> None:
    np.multiply(dy, x, out=dx)
    np.multiply(dx, 2, out=dx)


OP = unary(
    "SQUARE",
    forward,
    grad_x,
    reads=("x",),
    over=("dy", "x"),
    infer=number_like_x,
    compiled=elementwise.kernel("multiply", "y", ("x", "x")),
    compiled_back=elementwise.kernel("multiply", "dx", ("dy", "x"), 2),
    quantized=QuantizedDef(refused=True),
)
