"""COMPLEX_ABS: absolute value of a complex x; dx = dy x / |x|, and 0 where x is 0.

Source: tf.math.abs.
"""

import numpy as np

from odt.kernels.families.complex_parts import real_like_x
from odt.kernels.families.elementwise import part_like_y
from odt.kernels.geometry.axes import same
from odt.kernels.rows.opdef import Array, Attrs, Kernel, OpDef


def forward(attrs: Attrs, *, x: Array, y: Array) -> None:
    np.abs(x, out=y)


def grad_x(attrs: Attrs, *, dy: Array, x: Array, y: Array, dx: Array, part: Array) -> None:
    np.maximum(y, np.finfo(y.dtype).smallest_normal, out=part)
    for source, target in ((x.real, dx.real), (x.imag, dx.imag)):
        np.divide(source, part, out=target)
        np.multiply(target, dy, out=target)


OP = OpDef(
    "COMPLEX_ABS",
    inputs=("x",),
    infer=real_like_x,
    forward=Kernel(forward, reads=("x",), writes=("y",)),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "x", "y"),
            writes=("dx",),
            workspace=part_like_y,
            may_alias=frozenset({("dx", "x")}),
        )
    },
    takes_complex=True,
    permute=same,
)
