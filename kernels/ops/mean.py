"""MEAN: y is the mean of x over some axes.

dx = dy / n, stretched over those axes, n values in each mean. Source: ReducerOptions in the
TFLite schema.
"""

import numpy as np

from odt.kernels.opdef import Array, Kernel, OpDef
from odt.kernels.reduction import ReduceAttrs, infer, mixes, prepare, reduce_attrs

Axes = tuple[int, ...]


def forward(attrs: ReduceAttrs, *, x: Array, y: Array, axes: Axes, kept: Axes, count: int) -> None:
    np.sum(x, axis=axes, keepdims=True, out=y.reshape(kept, copy=False))
    np.divide(y, count, out=y)


def grad_x(attrs: ReduceAttrs, *, dy: Array, dx: Array, axes: Axes, kept: Axes, count: int) -> None:
    np.divide(dy.reshape(kept, copy=False), count, out=dx)


OP = OpDef(
    "MEAN",
    inputs=("x", "axes"),
    infer=infer,
    forward=Kernel(forward, reads=("x",), writes=("y",), prepare=prepare),
    grads={"x": Kernel(grad_x, reads=("dy",), writes=("dx",), prepare=prepare)},
    static=("axes",),
    attrs=reduce_attrs,
    mixes=mixes,
)
