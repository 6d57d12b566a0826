"""ABS: y = |x|, element by element; dx = dy · sign x (0 at 0)."""

import numpy as np

from odt.kernels.families.elementwise import number_like_x, unary
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import Array
from odt.kernels.rows.quantizeddef import QuantizedDef


def forward(attrs: None, *, x: Array, y: Array) -> None:
    np.absolute(x, out=y)


def grad_x(attrs: None, *, dy: Array, x: Array, dx: Array) -> None:
    np.sign(x, out=dx)
    np.multiply(dx, dy, out=dx)


OP = unary(
    "ABS",
    forward,
    grad_x,
    reads=("x",),
    over=("x",),
    infer=number_like_x,
    compiled=elementwise.kernel("abs", "y", ("x",)),
    compiled_back=elementwise.kernel("abs_back", "dx", ("dy", "x")),
    quantized=QuantizedDef(versions={"INT8": 2, "UINT8": 2, "INT16": 3}),
)
