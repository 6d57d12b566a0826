"""SUM: y is the sum of x over some axes; dx is dy, stretched over them.

Source: ReducerOptions in the TFLite schema.
"""

import numpy as np

from odt.kernels.native import maps
from odt.kernels.opdef import Array, Kernel, OpDef
from odt.kernels.reduction import (
    ReduceAttrs,
    infer,
    later_axes,
    mixes,
    moved_axes,
    prepare,
    reduce_attrs,
)

Axes = tuple[int, ...]


def forward(attrs: ReduceAttrs, *, x: Array, y: Array, axes: Axes, kept: Axes, count: int) -> None:
    np.sum(x, axis=axes, keepdims=True, out=y.reshape(kept, copy=False))


def grad_x(attrs: ReduceAttrs, *, dy: Array, dx: Array, axes: Axes, kept: Axes, count: int) -> None:
    np.copyto(dx, dy.reshape(kept, copy=False))


OP = OpDef(
    "SUM",
    inputs=("x", "axes"),
    infer=infer,
    forward=Kernel(forward, reads=("x",), writes=("y",), prepare=prepare, compiled=maps.SUM),
    grads={
        "x": Kernel(grad_x, reads=("dy",), writes=("dx",), prepare=prepare, compiled=maps.SUM_BACK)
    },
    static=("axes",),
    attrs=reduce_attrs,
    mixes=mixes,
    stacked=later_axes,
    permuted=moved_axes,
)
