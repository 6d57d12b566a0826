"""RSQRT: y = 1 / √x, element by element; dx = −½ dy y³."""

import numpy as np

from odt.kernels.families.elementwise import unary
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import Array
from odt.kernels.rows.quantizeddef import QuantizedDef


def forward(attrs: None, *, x: Array, y: Array) -> None:
    np.sqrt(x, out=y)
    np.divide(1, y, out=y)


def grad_x(attrs: None, *, dy: Array, y: Array, dx: Array) -> None:
    np.multiply(dy, -0.5, out=dx)
    for _ in range(3):
        np.multiply(dx, y, out=dx)


OP = unary(
    "RSQRT",
    forward,
    grad_x,
    reads=("y",),
    over=("dy",),
    compiled=elementwise.kernel("rsqrt", "y", ("x",)),
    compiled_back=elementwise.kernel("rsqrt_back", "dx", ("dy", "y")),
    quantized=QuantizedDef(versions={"INT8": 2, "INT16": 3}),
)
