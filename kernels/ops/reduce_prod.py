"""REDUCE_PROD: product of x over some axes.

dx = dy times the product of all other elements. With p the product of the nonzero elements and z
the number of zeros: for x ≠ 0, dx = dy p / x if z = 0, else 0; for x = 0, dx = dy p if z = 1, else
0.
"""

import numpy as np

from odt.kernels.families.elementwise import BOOL
from odt.kernels.families.reduce import infer, mixes_samples
from odt.kernels.geometry.reduce_geometry import (
    ReduceAttrs,
    later_axes,
    moved_axes,
    prepare,
    reduce_attrs,
)
from odt.kernels.native.scans import PRODUCT, PRODUCT_BACK
from odt.kernels.rows.opdef import Array, Kernel, OpDef, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef

Axes = tuple[int, ...]


def forward(
    attrs: ReduceAttrs, *, x: Array, y: Array, axes: Axes, keepdims_shape: Axes, count: int
) -> None:
    np.prod(x, axis=axes, keepdims=True, out=y.reshape(keepdims_shape, copy=False))


def scratch(attrs: ReduceAttrs, s: Specs) -> Specs:
    return {
        "product": s["y"],
        "zeros": s["y"],
        "is_zero": TensorSpec(s["x"].shape, BOOL),
        "fits": TensorSpec(s["y"].shape, BOOL),
    }


def grad_x(
    attrs: ReduceAttrs,
    *,
    dy: Array,
    x: Array,
    dx: Array,
    product: Array,
    zeros: Array,
    is_zero: Array,
    fits: Array,
    axes: Axes,
    keepdims_shape: Axes,
    count: int,
) -> None:
    dy, product, zeros, fits = (
        a.reshape(keepdims_shape, copy=False) for a in (dy, product, zeros, fits)
    )
    np.equal(x, 0, out=is_zero)
    np.sum(is_zero, axis=axes, keepdims=True, out=zeros)
    np.copyto(dx, x)
    np.copyto(dx, 1, where=is_zero)
    np.prod(dx, axis=axes, keepdims=True, out=product)
    np.multiply(product, dy, out=product)
    np.divide(product, dx, out=dx)
    np.equal(zeros, 0, out=fits)  # dy p / x without zeros
    np.multiply(dx, fits, out=dx)
    np.equal(zeros, 1, out=fits)  # dy p at a single zero
    np.multiply(product, fits, out=product)
    np.copyto(dx, product, where=is_zero)


OP = OpDef(
    "REDUCE_PROD",
    inputs=("x", "axes"),
    infer=infer,
    forward=Kernel(forward, reads=("x",), writes=("y",), prepare=prepare, compiled=PRODUCT),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "x"),
            writes=("dx",),
            workspace=scratch,
            prepare=prepare,
            may_alias=frozenset({("dx", "x")}),
            compiled=PRODUCT_BACK,
        )
    },
    static=("axes",),
    attrs=reduce_attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=later_axes,
    permute=moved_axes,
    quantized=QuantizedDef(versions={"INT8": 2, "INT16": 2}),
)
