"""SIGN: y = −1, 0 or 1 for x < 0, x = 0, x > 0, element by element; dx = 0."""

import numpy as np

from odt.kernels.families.elementwise import IN_PLACE, number_like_x
from odt.kernels.families.zero_gradient import zero
from odt.kernels.native.elementwise import kernel
from odt.kernels.rows.opdef import Array, Kernel, OpDef
from odt.kernels.rows.quantizeddef import QuantizedDef


def forward(attrs: None, *, x: Array, y: Array) -> None:
    np.sign(x, out=y)


OP = OpDef(
    "SIGN",
    inputs=("x",),
    infer=number_like_x,
    forward=Kernel(
        forward,
        reads=("x",),
        writes=("y",),
        may_alias=IN_PLACE,
        compiled=kernel("sign", "y", ("x",)),
    ),
    grads={"x": zero("x")},
    quantized=QuantizedDef(refused=True),
)
