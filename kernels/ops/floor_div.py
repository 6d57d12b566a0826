"""FLOOR_DIV: y = ⌊a / b⌋, with a and b broadcast; da = 0 and db = 0.

The division of integers is exact; division by 0 is an error.
"""

import numpy as np

from odt.kernels.families.binary import BINARY, IN_PLACE, infer, mixes_samples, refuse_zeros
from odt.kernels.families.zero_gradient import zero
from odt.kernels.geometry.axes import same
from odt.kernels.native.elementwise import kernel
from odt.kernels.native.typed import FLOOR_DIVIDE, also_integers
from odt.kernels.rows.opdef import Array, Kernel, OpDef
from odt.kernels.rows.quantizeddef import QuantizedDef

check_divisors = refuse_zeros("FLOOR_DIV")


def forward(attrs: None, *, a: Array, b: Array, y: Array) -> None:
    if y.dtype.kind == "f":
        np.divide(a, b, out=y)
        np.floor(y, out=y)
        return
    check_divisors(b)
    np.floor_divide(a, b, out=y)


OP = OpDef(
    "FLOOR_DIV",
    inputs=BINARY,
    infer=infer,
    forward=Kernel(
        forward,
        reads=BINARY,
        writes=("y",),
        may_alias=IN_PLACE,
        compiled=also_integers(kernel("floor_divide", "y", BINARY), FLOOR_DIVIDE, check_divisors),
    ),
    grads={"a": zero("a"), "b": zero("b")},
    mixes_samples=mixes_samples,
    add_batch_axis=same,
    permute=same,
    quantized=QuantizedDef(versions={"INT8": 3, "INT16": 3}),
)
