"""MUL: y = a · b, with a and b broadcast.

da = dy · b and db = dy · a, each summed over the axes along which that input was broadcast.
"""

import numpy as np

from odt.kernels.families.binary import (
    BINARY,
    IN_PLACE,
    infer,
    mixes_samples,
    product_like_y,
    reducer,
    sum_into,
)
from odt.kernels.geometry.axes import same
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import Array, Kernel, OpDef
from odt.kernels.rows.quantizeddef import QuantizedDef

Axes = tuple[int, ...]


def forward(attrs: None, *, a: Array, b: Array, y: Array) -> None:
    np.multiply(a, b, out=y)


def multiply(
    dy: Array, other: Array, dx: Array, unreduced: Array | None, axes: Axes, keepdims_shape: Axes
) -> None:
    if unreduced is None:
        np.multiply(dy, other, out=dx)
        return
    np.multiply(dy, other, out=unreduced)
    sum_into(unreduced, dx, axes, keepdims_shape)


def grad_a(
    attrs: None,
    *,
    dy: Array,
    b: Array,
    da: Array,
    axes: Axes,
    keepdims_shape: Axes,
    unreduced: Array | None = None,
) -> None:
    multiply(dy, b, da, unreduced, axes, keepdims_shape)


def grad_b(
    attrs: None,
    *,
    dy: Array,
    a: Array,
    db: Array,
    axes: Axes,
    keepdims_shape: Axes,
    unreduced: Array | None = None,
) -> None:
    multiply(dy, a, db, unreduced, axes, keepdims_shape)


OP = OpDef(
    "MUL",
    inputs=BINARY,
    infer=infer,
    forward=Kernel(
        forward,
        reads=BINARY,
        writes=("y",),
        may_alias=IN_PLACE,
        compiled=elementwise.kernel("multiply", "y", BINARY),
    ),
    grads={
        "a": Kernel(
            grad_a,
            reads=("dy", "b"),
            writes=("da",),
            workspace=product_like_y("a"),
            may_alias=frozenset({("da", "dy")}),
            prepare=reducer("a"),
            compiled=elementwise.kernel("multiply", "da", ("dy", "b")),
        ),
        "b": Kernel(
            grad_b,
            reads=("dy", "a"),
            writes=("db",),
            workspace=product_like_y("b"),
            may_alias=frozenset({("db", "dy")}),
            prepare=reducer("b"),
            compiled=elementwise.kernel("multiply", "db", ("dy", "a")),
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
