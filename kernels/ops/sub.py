"""SUB: y = a − b, with a and b broadcast.

da = dy and db = −dy, each summed over the axes along which that input was broadcast.
"""

import numpy as np

from odt.kernels.families.binary import (
    BINARY,
    IN_PLACE,
    infer,
    mixes_samples,
    passed_on,
    reducer,
    sum_into,
)
from odt.kernels.geometry.axes import same
from odt.kernels.native import elementwise
from odt.kernels.native.typed import SUBTRACT, also_integers
from odt.kernels.rows.opdef import Array, Kernel, OpDef
from odt.kernels.rows.quantizeddef import QuantizedDef


def forward(attrs: None, *, a: Array, b: Array, y: Array) -> None:
    np.subtract(a, b, out=y)


def grad_b(
    attrs: None, *, dy: Array, db: Array, axes: tuple[int, ...], keepdims_shape: tuple[int, ...]
) -> None:
    if not axes:
        np.negative(dy, out=db.reshape(keepdims_shape, copy=False))
        return
    sum_into(dy, db, axes, keepdims_shape)
    np.negative(db, out=db)


OP = OpDef(
    "SUB",
    inputs=BINARY,
    infer=infer,
    forward=Kernel(
        forward,
        reads=BINARY,
        writes=("y",),
        may_alias=IN_PLACE,
        compiled=also_integers(elementwise.kernel("subtract", "y", BINARY), SUBTRACT),
    ),
    grads={
        "a": passed_on("a"),
        "b": Kernel(
            grad_b,
            reads=("dy",),
            writes=("db",),
            prepare=reducer("b"),
            compiled=elementwise.sums("b", -1),
        ),
    },
    mixes_samples=mixes_samples,
    add_batch_axis=same,
    permute=same,
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 5},
        int8=True,
        int16=True,
        needs_scale=True,
        implies_activation=True,
    ),
)
