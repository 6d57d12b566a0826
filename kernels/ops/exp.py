"""EXP: y = eˣ, element by element; dx = dy · y."""

import numpy as np

from odt.kernels.families.elementwise import unary
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import Array
from odt.kernels.rows.quantizeddef import QuantizedDef


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
    compiled=elementwise.kernel("exp", "y", ("x",)),
    compiled_back=elementwise.kernel("multiply", "dx", ("dy", "y")),
    quantized=QuantizedDef(versions={"INT8": 2, "INT16": 2}),
)
