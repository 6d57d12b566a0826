"""SQUARED_DIFFERENCE: y = (a − b)², with a and b broadcast.

da = 2 dy (a − b) and db = −da, each summed over the axes along which that input was broadcast.
"""

import numpy as np

from odt.kernels.families.binary import BINARY, binary, gradient
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import Array
from odt.kernels.rows.quantizeddef import QuantizedDef


def forward(attrs: None, *, a: Array, b: Array, y: Array) -> None:
    np.subtract(a, b, out=y)
    np.multiply(y, y, out=y)


def d_a(attrs: None, *, dy: Array, a: Array, b: Array, out: Array) -> None:
    np.subtract(a, b, out=out)
    np.multiply(out, dy, out=out)
    np.multiply(out, 2, out=out)


def d_b(attrs: None, *, dy: Array, a: Array, b: Array, out: Array) -> None:
    d_a(None, dy=dy, a=b, b=a, out=out)


READS = ("dy", "a", "b")
OP = binary(
    "SQUARED_DIFFERENCE",
    forward,
    gradient(
        "a", d_a, READS, compiled=elementwise.kernel("squared_difference_back", "da", READS, 2)
    ),
    gradient(
        "b", d_b, READS, compiled=elementwise.kernel("squared_difference_back", "db", READS, -2)
    ),
    elementwise.kernel("squared_difference", "y", BINARY),
    quantized=QuantizedDef(versions={"INT8": 2}, int8=True),
)
