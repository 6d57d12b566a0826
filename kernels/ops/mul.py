"""MUL: y = a · b, with a and b broadcast.

da = dy · b and db = dy · a, each summed over the axes along which that input was broadcast.
"""

import numpy as np

from odt.kernels.families.binary import BINARY, IN_PLACE, gradient, infer, mixes_samples
from odt.kernels.geometry.axes import same
from odt.kernels.native import elementwise
from odt.kernels.native.typed import MULTIPLY, also_integers
from odt.kernels.rows.opdef import Array, Kernel, OpDef
from odt.kernels.rows.quantizeddef import QuantizedDef


def forward(attrs: None, *, a: Array, b: Array, y: Array) -> None:
    np.multiply(a, b, out=y)


def d_a(attrs: None, *, dy: Array, b: Array, out: Array) -> None:
    np.multiply(dy, b, out=out)


def d_b(attrs: None, *, dy: Array, a: Array, out: Array) -> None:
    np.multiply(dy, a, out=out)


OP = OpDef(
    "MUL",
    inputs=BINARY,
    infer=infer,
    forward=Kernel(
        forward,
        reads=BINARY,
        writes=("y",),
        may_alias=IN_PLACE,
        compiled=also_integers(elementwise.kernel("multiply", "y", BINARY), MULTIPLY),
    ),
    grads={
        "a": gradient(
            "a",
            d_a,
            ("dy", "b"),
            compiled=elementwise.kernel("multiply", "da", ("dy", "b")),
            over=("dy",),
        ),
        "b": gradient(
            "b",
            d_b,
            ("dy", "a"),
            compiled=elementwise.kernel("multiply", "db", ("dy", "a")),
            over=("dy",),
        ),
    },
    mixes_samples=mixes_samples,
    add_batch_axis=same,
    permute=same,
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 4},
        int8=True,
        int16=True,
        needs_scale=True,
        implies_activation=True,
    ),
)
