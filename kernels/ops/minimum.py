"""MINIMUM: y = min(a, b), with a and b broadcast.

da = dy if a ≤ b, db = dy if a > b, else 0; each summed over the axes along which that input was
broadcast. For equal values da gets dy, as in TensorFlow.
"""

import numpy as np

from odt.kernels.families.binary import BINARY, binary, gradient
from odt.kernels.families.elementwise import mask_like_y
from odt.kernels.native import elementwise
from odt.kernels.native.typed import MINIMUM, also_integers
from odt.kernels.rows.opdef import Array
from odt.kernels.rows.quantizeddef import QuantizedDef


def forward(attrs: None, *, a: Array, b: Array, y: Array) -> None:
    np.minimum(a, b, out=y)


def d_a(attrs: None, *, dy: Array, a: Array, b: Array, out: Array, mask: Array) -> None:
    np.less_equal(a, b, out=mask)
    np.multiply(dy, mask, out=out)


def d_b(attrs: None, *, dy: Array, a: Array, b: Array, out: Array, mask: Array) -> None:
    np.greater(a, b, out=mask)
    np.multiply(dy, mask, out=out)


READS = ("dy", "a", "b")
OP = binary(
    "MINIMUM",
    forward,
    gradient("a", d_a, READS, mask_like_y, elementwise.kernel("where_ge", "da", ("dy", "b", "a"))),
    gradient("b", d_b, READS, mask_like_y, elementwise.kernel("where_lt", "db", ("dy", "b", "a"))),
    also_integers(elementwise.kernel("minimum", "y", BINARY), MINIMUM),
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 4}, int8=True, int16=True, same="all", values="moved"
    ),
)
