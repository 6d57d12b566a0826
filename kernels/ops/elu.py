"""ELU: y = x if x > 0, else eˣ − 1, element by element; dx = dy if y > 0, else dy (y + 1)."""

import numpy as np

from odt.kernels.families.elementwise import part_like_y, unary
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import Array
from odt.kernels.rows.quantizeddef import QuantizedDef


def forward(attrs: None, *, x: Array, y: Array, part: Array) -> None:
    np.minimum(x, 0, out=part)
    np.expm1(part, out=part)
    np.maximum(x, 0, out=y)
    np.add(y, part, out=y)


def grad_x(attrs: None, *, dy: Array, y: Array, dx: Array) -> None:
    np.minimum(y, 0, out=dx)
    np.add(dx, 1, out=dx)
    np.multiply(dx, dy, out=dx)


OP = unary(
    "ELU",
    forward,
    grad_x,
    reads=("y",),
    over=("y",),
    workspace=part_like_y,
    compiled=elementwise.kernel("elu", "y", ("x",)),
    compiled_back=elementwise.kernel("elu_back", "dx", ("dy", "y")),
    quantized=QuantizedDef(int8=True),
)
