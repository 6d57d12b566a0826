"""LOG: y = ln x, element by element; dx = dy / x."""

import numpy as np

from odt.kernels.families.elementwise import unary
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import Array
from odt.kernels.rows.quantizeddef import QuantizedDef


def forward(attrs: None, *, x: Array, y: Array) -> None:
    np.log(x, out=y)


def grad_x(attrs: None, *, dy: Array, x: Array, dx: Array) -> None:
    np.divide(dy, x, out=dx)


OP = unary(
    "LOG",
    forward,
    grad_x,
    reads=("x",),
    over=("dy", "x"),
    compiled=elementwise.kernel("log", "y", ("x",)),
    compiled_back=elementwise.kernel("divide", "dx", ("dy", "x")),
    quantized=QuantizedDef(versions={"INT8": 2, "INT16": 2}),
)
