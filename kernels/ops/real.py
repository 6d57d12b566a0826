"""REAL: real part of x; the gradient dx is dy, with the imaginary part 0.

Source: tf.math.real.
"""

import numpy as np

from odt.kernels.families.complex_parts import real_like_x
from odt.kernels.geometry.axes import same
from odt.kernels.rows.opdef import Array, Attrs, Kernel, OpDef


def forward(attrs: Attrs, *, x: Array, y: Array) -> None:
    np.copyto(y, x.real)


def grad_x(attrs: Attrs, *, dy: Array, dx: Array) -> None:
    np.copyto(dx, dy)


OP = OpDef(
    "REAL",
    inputs=("x",),
    infer=real_like_x,
    forward=Kernel(forward, reads=("x",), writes=("y",)),
    grads={"x": Kernel(grad_x, reads=("dy",), writes=("dx",))},
    takes_complex=True,
    permute=same,
)
