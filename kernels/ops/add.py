"""ADD: y = a + b, stretched to match from the last axis on.

da = dy and db = dy, each summed over the axes along which that input was stretched.
"""

import numpy as np

from odt.kernels.broadcast import BINARY, IN_PLACE, infer, is_whole, mixes, reducer, sum_into
from odt.kernels.native import maps
from odt.kernels.opdef import Array, Kernel, OpDef


def forward(attrs: None, *, a: Array, b: Array, y: Array) -> None:
    np.add(a, b, out=y)


def grad_a(
    attrs: None, *, dy: Array, da: Array, axes: tuple[int, ...], kept: tuple[int, ...]
) -> None:
    sum_into(dy, da, axes, kept)


def grad_b(
    attrs: None, *, dy: Array, db: Array, axes: tuple[int, ...], kept: tuple[int, ...]
) -> None:
    sum_into(dy, db, axes, kept)


OP = OpDef(
    "ADD",
    inputs=BINARY,
    infer=infer,
    forward=Kernel(forward, reads=BINARY, writes=("y",), may_alias=IN_PLACE, compiled=maps.ADD),
    grads={
        "a": Kernel(
            grad_a,
            reads=("dy",),
            writes=("da",),
            prepare=reducer("a"),
            view=is_whole("a"),
            compiled=maps.sums("a"),
        ),
        "b": Kernel(
            grad_b,
            reads=("dy",),
            writes=("db",),
            prepare=reducer("b"),
            view=is_whole("b"),
            compiled=maps.sums("b"),
        ),
    },
    mixes=mixes,
)
