"""MEAN: mean of x over some axes.

dx = dy / n, broadcast over those axes, for means of n values. A mean of integers is rounded towards
0, as in LiteRT; it is exact while the sums of its parts are below 2⁵³. float16 is added up in
float64. Source: ReducerOptions in the TFLite schema.
"""

import numpy as np

from odt.kernels.families.reduce import FLOAT64, add_up, infer, mixes_samples
from odt.kernels.geometry.reduce_geometry import (
    ReduceAttrs,
    later_axes,
    moved_axes,
    prepare,
    reduce_attrs,
)
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import Array, Kernel, OpDef, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef

Axes = tuple[int, ...]


def scratch(attrs: ReduceAttrs, s: Specs) -> Specs:
    y = s["y"]
    is_wide = y.dtype.kind == "f" and y.dtype.itemsize >= 4
    return {} if is_wide else {"exact": TensorSpec(y.shape, FLOAT64)}


def forward(
    attrs: ReduceAttrs,
    *,
    x: Array,
    y: Array,
    axes: Axes,
    keepdims_shape: Axes,
    count: int,
    exact: Array | None = None,
) -> None:
    mean = y if exact is None else exact
    add_up(x, mean, axes, keepdims_shape)
    np.divide(mean, count, out=mean)
    if exact is not None:
        if y.dtype.kind != "f":
            np.trunc(exact, out=exact)
        np.copyto(y, exact, casting="unsafe")


def grad_x(
    attrs: ReduceAttrs, *, dy: Array, dx: Array, axes: Axes, keepdims_shape: Axes, count: int
) -> None:
    np.divide(dy.reshape(keepdims_shape, copy=False), count, out=dx)


OP = OpDef(
    "MEAN",
    inputs=("x", "axes"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x",),
        writes=("y",),
        workspace=scratch,
        prepare=prepare,
        compiled=elementwise.MEAN,
    ),
    grads={
        "x": Kernel(
            grad_x, reads=("dy",), writes=("dx",), prepare=prepare, compiled=elementwise.MEAN_BACK
        )
    },
    static=("axes",),
    attrs=reduce_attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=later_axes,
    permute=moved_axes,
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 3}, int8=True, int16=True, bytes_only=True
    ),
)
