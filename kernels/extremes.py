"""REDUCE_MAX and REDUCE_MIN: the greatest or smallest x over some axes.

dx = dy where x is y; among n equals each gets dy / n, as in TensorFlow and PyTorch's amax.
"""

from collections.abc import Callable

import numpy as np

from odt.errors import ShapeError
from odt.kernels.elementwise import BOOL
from odt.kernels.opdef import Array, Kernel, OpDef, Specs, TensorSpec
from odt.kernels.reduction import (
    ReduceAttrs,
    later_axes,
    mixes,
    moved_axes,
    prepare,
    reduce_attrs,
    reduced_axes,
)
from odt.kernels.reduction import infer as infer_any

Axes = tuple[int, ...]


def infer(attrs: ReduceAttrs, s: Specs) -> Specs:
    x = s["x"]
    if any(x.shape[a] == 0 for a in reduced_axes(attrs, x)):
        raise ShapeError(f"x must hold something along each of axes {attrs.axes}, but got {x}")
    return infer_any(attrs, s)


def shares(attrs: ReduceAttrs, s: Specs) -> Specs:
    return {"share": s["y"], "mask": TensorSpec(s["x"].shape, BOOL)}


def grad_x(
    attrs: ReduceAttrs,
    *,
    dy: Array,
    x: Array,
    y: Array,
    dx: Array,
    share: Array,
    mask: Array,
    axes: Axes,
    kept: Axes,
    count: int,
) -> None:
    part = share.reshape(kept, copy=False)
    np.equal(x, y.reshape(kept, copy=False), out=mask)
    np.sum(mask, axis=axes, keepdims=True, out=part)
    np.divide(dy.reshape(kept, copy=False), part, out=part)
    np.multiply(part, mask, out=dx)


def extreme(name: str, find: Callable[..., Array]) -> OpDef:
    """The row; find is np.max or np.min."""

    def forward(
        attrs: ReduceAttrs, *, x: Array, y: Array, axes: Axes, kept: Axes, count: int
    ) -> None:
        find(x, axis=axes, keepdims=True, out=y.reshape(kept, copy=False))

    return OpDef(
        name,
        inputs=("x", "axes"),
        infer=infer,
        forward=Kernel(forward, reads=("x",), writes=("y",), prepare=prepare),
        grads={
            "x": Kernel(
                grad_x,
                reads=("dy", "x", "y"),
                writes=("dx",),
                workspace=shares,
                prepare=prepare,
                may_alias=frozenset({("dx", "x")}),
            )
        },
        static=("axes",),
        attrs=reduce_attrs,
        mixes=mixes,
        stacked=later_axes,
        permuted=moved_axes,
    )
