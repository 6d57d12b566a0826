"""POW: y = aᵇ, with a and b broadcast.

da = dy · b aᵇ⁻¹ (0 where b is 0)    db = dy · y ln a (0 where a is not above 0)
each summed over the axes along which that input was broadcast.

For a < 0, where the gradient by b does not exist, db is 0. Exponents of integers must be at least
0, as in LiteRT.
"""

import numpy as np

from odt.errors import DataError
from odt.kernels.families.binary import binary, gradient
from odt.kernels.families.elementwise import BOOL
from odt.kernels.native.elementwise import kernel
from odt.kernels.rows.opdef import Array, Attrs, Specs, TensorSpec


def forward(attrs: None, *, a: Array, b: Array, y: Array) -> None:
    if y.dtype.kind != "f" and b.size and np.min(b) < 0:
        raise DataError(f"POW: b must be 0 or more among integers, but got {np.min(b)}")
    np.power(a, b, out=y)


def exponent(attrs: Attrs, s: Specs) -> Specs:
    return {"less": s["b"], "mask": TensorSpec(s["b"].shape, BOOL)}


def d_a(
    attrs: None, *, dy: Array, a: Array, b: Array, out: Array, less: Array, mask: Array
) -> None:
    np.equal(b, 0, out=mask)
    np.subtract(b, 1, out=less)
    np.copyto(less, 0, where=mask)
    np.power(a, less, out=out)
    np.multiply(out, b, out=out)
    np.multiply(out, dy, out=out)


def logarithm(attrs: Attrs, s: Specs) -> Specs:
    return {"logs": s["a"], "mask": TensorSpec(s["a"].shape, BOOL)}


def d_b(
    attrs: None, *, dy: Array, a: Array, y: Array, out: Array, logs: Array, mask: Array
) -> None:
    np.less_equal(a, 0, out=mask)
    np.copyto(logs, a)
    np.copyto(logs, 1, where=mask)
    np.log(logs, out=logs)
    np.multiply(y, logs, out=out)
    np.multiply(out, dy, out=out)


OP = binary(
    "POW",
    forward,
    gradient("a", d_a, ("dy", "a", "b"), exponent, kernel("power_back", "da", ("dy", "a", "b"))),
    gradient(
        "b", d_b, ("dy", "a", "y"), logarithm, kernel("exponent_back", "db", ("dy", "a", "y"))
    ),
    kernel("power", "y", ("a", "b")),
)
