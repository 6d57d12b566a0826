"""TANH: y = tanh(x), element by element.

dx = dy (1 − y²)
"""

import numpy as np

from odt.kernels.families.elementwise import unary
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import Array
from odt.kernels.rows.quantizeddef import QuantizedDef


def forward(attrs: None, *, x: Array, y: Array) -> None:
    np.tanh(x, out=y)


def grad_x(attrs: None, *, dy: Array, y: Array, dx: Array) -> None:
    np.multiply(y, y, out=dx)
    np.subtract(1, dx, out=dx)
    np.multiply(dx, dy, out=dx)


OP = unary(
    "TANH",
    forward,
    grad_x,
    reads=("y",),
    over=("y",),
    compiled=elementwise.kernel("tanh", "y", ("x",)),
    compiled_back=elementwise.kernel("tanh_back", "dx", ("dy", "y")),
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 3}, int8=True, int16=True, range=(-1.0, 1.0)
    ),
)
