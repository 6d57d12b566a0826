"""LOGISTIC: y = 1 / (1 + e⁻ˣ), element by element; dx = dy · y (1 − y).

The exponent is limited to prevent overflow: far below 0, y of float32 is about 8e-39, where
compiled kernels give 0.
"""

import numpy as np

from odt.kernels.families.elementwise import unary
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import Array
from odt.kernels.rows.quantizeddef import QuantizedDef


def forward(attrs: None, *, x: Array, y: Array) -> None:
    np.negative(x, out=y)
    np.minimum(y, np.log(np.finfo(y.dtype).max) - 1, out=y)
    np.exp(y, out=y)
    np.add(y, 1, out=y)
    np.divide(1, y, out=y)


def grad_x(attrs: None, *, dy: Array, y: Array, dx: Array) -> None:
    np.subtract(1, y, out=dx)
    np.multiply(dx, y, out=dx)
    np.multiply(dx, dy, out=dx)


OP = unary(
    "LOGISTIC",
    forward,
    grad_x,
    reads=("y",),
    compiled=elementwise.kernel("logistic", "y", ("x",)),
    compiled_back=elementwise.kernel("logistic_back", "dx", ("dy", "y")),
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 3},
        int8=True,
        int16=True,
        needs_scale=True,
        range=(0.0, 1.0),
        checks_scales=True,
    ),
)
