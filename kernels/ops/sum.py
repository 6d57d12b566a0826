"""SUM: sum of x over some axes; dx is dy, broadcast over these axes.

float16 is added up in float64. Source: ReducerOptions in the TFLite schema.
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
    return {"exact": TensorSpec(y.shape, FLOAT64)} if y.dtype == np.float16 else {}


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
    add_up(x, y if exact is None else exact, axes, keepdims_shape)
    if exact is not None:
        np.copyto(y, exact, casting="unsafe")


def grad_x(
    attrs: ReduceAttrs, *, dy: Array, dx: Array, axes: Axes, keepdims_shape: Axes, count: int
) -> None:
    np.copyto(dx, dy.reshape(keepdims_shape, copy=False))


OP = OpDef(
    "SUM",
    inputs=("x", "axes"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x",),
        writes=("y",),
        workspace=scratch,
        prepare=prepare,
        compiled=elementwise.SUM,
    ),
    grads={
        "x": Kernel(
            grad_x, reads=("dy",), writes=("dx",), prepare=prepare, compiled=elementwise.SUM_BACK
        )
    },
    static=("axes",),
    attrs=reduce_attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=later_axes,
    permute=moved_axes,
    quantized=QuantizedDef(versions={"INT8": 2}, int8=True),
)
