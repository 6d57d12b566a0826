"""DIV: y = a / b, with a and b broadcast.

da = dy / b and db = −dy · y / b, each summed over the axes along which that input was broadcast.

The quotient of integers is rounded towards 0, as in C and LiteRT; division by 0 is an error.
"""

import numpy as np

from odt.kernels.families.binary import (
    BINARY,
    IN_PLACE,
    gradient,
    infer,
    mixes_samples,
    reducer,
    refuse_zeros,
    sum_into,
)
from odt.kernels.geometry.axes import same
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import Array, Attrs, Kernel, OpDef, Specs

Axes = tuple[int, ...]
check_divisors = refuse_zeros("DIV")


def remainder(attrs: Attrs, s: Specs) -> Specs:
    return {} if s["y"].dtype.kind == "f" else {"rest": s["y"]}


def forward(attrs: None, *, a: Array, b: Array, y: Array, rest: Array | None = None) -> None:
    if rest is None:
        np.divide(a, b, out=y)
        return
    check_divisors(b)
    np.fmod(a, b, out=rest)
    np.subtract(a, rest, out=rest)
    np.floor_divide(rest, b, out=y)


def d_a(attrs: None, *, dy: Array, b: Array, out: Array) -> None:
    np.divide(dy, b, out=out)


def quotient(attrs: Attrs, s: Specs) -> Specs:
    return {"unreduced": s["y"]}


def grad_b(
    attrs: None,
    *,
    dy: Array,
    b: Array,
    y: Array,
    db: Array,
    axes: Axes,
    keepdims_shape: Axes,
    unreduced: Array,
) -> None:
    np.divide(y, b, out=unreduced)
    np.multiply(unreduced, dy, out=unreduced)
    np.negative(unreduced, out=unreduced)
    sum_into(unreduced, db, axes, keepdims_shape)


OP = OpDef(
    "DIV",
    inputs=BINARY,
    infer=infer,
    forward=Kernel(
        forward,
        reads=BINARY,
        writes=("y",),
        workspace=remainder,
        may_alias=IN_PLACE,
        compiled=elementwise.kernel("divide", "y", BINARY),
    ),
    grads={
        "a": gradient(
            "a",
            d_a,
            ("dy", "b"),
            compiled=elementwise.kernel("divide", "da", ("dy", "b")),
            over=("dy",),
        ),
        "b": Kernel(
            grad_b,
            reads=("dy", "b", "y"),
            writes=("db",),
            workspace=quotient,
            prepare=reducer("b"),
            compiled=elementwise.kernel("divide_back", "db", ("dy", "y", "b")),
        ),
    },
    mixes_samples=mixes_samples,
    add_batch_axis=same,
    permute=same,
)
