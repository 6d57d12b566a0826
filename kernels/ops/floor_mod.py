"""FLOOR_MOD: y = a − ⌊a / b⌋ b, with a and b broadcast; y has the sign of b.

da = dy and db = −dy ⌊a / b⌋, each summed over the axes along which that input was broadcast.
For integers, division by 0 is an error.
"""

import numpy as np

from odt.kernels.families.binary import (
    BINARY,
    IN_PLACE,
    gradient,
    infer,
    mixes_samples,
    passed_on,
    refuse_zeros,
)
from odt.kernels.geometry.axes import same
from odt.kernels.native.elementwise import kernel
from odt.kernels.native.typed import REMAINDER, also_integers
from odt.kernels.rows.opdef import Array, Kernel, OpDef
from odt.kernels.rows.quantizeddef import QuantizedDef

check_divisors = refuse_zeros("FLOOR_MOD")


def forward(attrs: None, *, a: Array, b: Array, y: Array) -> None:
    if y.dtype.kind != "f":
        check_divisors(b)
    np.remainder(a, b, out=y)


def d_b(attrs: None, *, dy: Array, a: Array, b: Array, out: Array) -> None:
    np.floor_divide(a, b, out=out)  # of the exact quotient; a / b may round up to an integer
    np.multiply(out, dy, out=out)
    np.negative(out, out=out)


OP = OpDef(
    "FLOOR_MOD",
    inputs=BINARY,
    infer=infer,
    forward=Kernel(
        forward,
        reads=BINARY,
        writes=("y",),
        may_alias=IN_PLACE,
        compiled=also_integers(kernel("remainder", "y", BINARY), REMAINDER, check_divisors),
    ),
    grads={
        "a": passed_on("a"),
        "b": gradient(
            "b",
            d_b,
            reads=("dy", "a", "b"),
            compiled=kernel("remainder_back", "db", ("dy", "a", "b")),
        ),
    },
    mixes_samples=mixes_samples,
    add_batch_axis=same,
    permute=same,
    quantized=QuantizedDef(versions={"INT8": 2, "INT16": 2}),
)
