"""CUSTOM:Softplus: y = log(1 + eˣ), element by element; dx = dy (1 − e⁻ʸ).

The gradient's factor is the logistic function of x. Source: Softplus of TensorFlow and of ONNX.
"""

import numpy as np

from odt.kernels.families.elementwise import part_like_y, unary
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import Array


def forward(attrs: None, *, x: Array, y: Array, part: Array) -> None:
    np.absolute(x, out=part)
    np.negative(part, out=part)
    np.exp(part, out=part)
    np.log1p(part, out=part)
    np.maximum(x, 0, out=y)
    np.add(y, part, out=y)


def grad_x(attrs: None, *, dy: Array, y: Array, dx: Array) -> None:
    np.negative(y, out=dx)
    np.expm1(dx, out=dx)
    np.negative(dx, out=dx)
    np.multiply(dx, dy, out=dx)


OP = unary(
    "CUSTOM:Softplus",
    forward,
    grad_x,
    reads=("y",),
    over=("y",),
    workspace=part_like_y,
    compiled=elementwise.kernel("softplus", "y", ("x",)),
    compiled_back=elementwise.kernel("softplus_back", "dx", ("dy", "y")),
)
