"""IMAG: imaginary part of x; the gradient dx is i dy.

Source: tf.math.imag.
"""

import numpy as np

from odt.kernels.families.complex_parts import real_like_x
from odt.kernels.geometry.axes import same
from odt.kernels.rows.opdef import Array, Attrs, Kernel, OpDef


def forward(attrs: Attrs, *, x: Array, y: Array) -> None:
    np.copyto(y, x.imag)


def grad_x(attrs: Attrs, *, dy: Array, dx: Array) -> None:
    dx.real.fill(0)
    np.copyto(dx.imag, dy)


OP = OpDef(
    "IMAG",
    inputs=("x",),
    infer=real_like_x,
    forward=Kernel(forward, reads=("x",), writes=("y",)),
    grads={"x": Kernel(grad_x, reads=("dy",), writes=("dx",))},
    takes_complex=True,
    permute=same,
)
