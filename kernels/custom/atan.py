"""CUSTOM:Atan: y = arctan x, element by element; dx = dy / (1 + x²).

Source: Atan of ONNX and of TensorFlow.
"""

import numpy as np

from odt.kernels.families.elementwise import unary
from odt.kernels.rows.opdef import Array


def forward(attrs: None, *, x: Array, y: Array) -> None:
    np.arctan(x, out=y)


def grad_x(attrs: None, *, dy: Array, x: Array, dx: Array) -> None:
    np.multiply(x, x, out=dx)
    np.add(dx, 1, out=dx)
    np.divide(dy, dx, out=dx)


OP = unary("CUSTOM:Atan", forward, grad_x, reads=("x",))
