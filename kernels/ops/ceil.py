"""CEIL: y = ⌈x⌉, element by element; dx = 0."""

import numpy as np

from odt.kernels.families.elementwise import IN_PLACE, float_like_x
from odt.kernels.families.zero_gradient import zero
from odt.kernels.geometry.axes import same
from odt.kernels.native.elementwise import kernel
from odt.kernels.rows.opdef import Array, Kernel, OpDef


def forward(attrs: None, *, x: Array, y: Array) -> None:
    np.ceil(x, out=y)


OP = OpDef(
    "CEIL",
    inputs=("x",),
    infer=float_like_x,
    forward=Kernel(
        forward,
        reads=("x",),
        writes=("y",),
        may_alias=IN_PLACE,
        compiled=kernel("ceil", "y", ("x",)),
    ),
    grads={"x": zero("x")},
    permute=same,
)
