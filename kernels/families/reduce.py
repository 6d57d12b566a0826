"""Reductions: shape inference; the rows of REDUCE_MAX, REDUCE_MIN, REDUCE_ANY and REDUCE_ALL."""

from collections.abc import Callable

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.elementwise import BOOL, bool_like_x
from odt.kernels.geometry.reduce_geometry import (
    ReduceAttrs,
    later_axes,
    moved_axes,
    prepare,
    reduce_attrs,
    reduced_axes,
    shape_with_keepdims,
)
from odt.kernels.native import elementwise
from odt.kernels.native.typed import any_or_all
from odt.kernels.rows.opdef import Array, Kernel, Names, OpDef, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef

Axes = tuple[int, ...]
FLOAT64 = np.dtype(np.float64)


def add_up(x: Array, total: Array, axes: Axes, keepdims_shape: Axes) -> None:
    """Adds up x over some axes in the dtype of the total."""
    out = total.reshape(keepdims_shape, copy=False)
    np.sum(x, axis=axes, keepdims=True, dtype=total.dtype, out=out)


def infer(attrs: ReduceAttrs, s: Specs) -> Specs:
    x = s["x"]
    axes = reduced_axes(attrs, x)
    full = shape_with_keepdims(x.shape, axes)
    shape = full if attrs.keep_dims else tuple(n for k, n in enumerate(x.shape) if k not in axes)
    return {"y": TensorSpec(shape, x.dtype)}


def mixes_samples(attrs: ReduceAttrs, s: Specs, batched: Names) -> bool:
    return 0 in reduced_axes(attrs, s["x"])


def infer_extreme(attrs: ReduceAttrs, s: Specs) -> Specs:
    x = s["x"]
    if any(x.shape[a] == 0 for a in reduced_axes(attrs, x)):
        raise ShapeError(f"axes {attrs.axes} of x must not be empty, but got x {x}")
    return infer(attrs, s)


def extreme_workspace(attrs: ReduceAttrs, s: Specs) -> Specs:
    return {"gradient": s["y"], "mask": TensorSpec(s["x"].shape, BOOL)}


def extreme_grad_x(
    attrs: ReduceAttrs,
    *,
    dy: Array,
    x: Array,
    y: Array,
    dx: Array,
    gradient: Array,
    mask: Array,
    axes: Axes,
    keepdims_shape: Axes,
    count: int,
) -> None:
    part = gradient.reshape(keepdims_shape, copy=False)
    np.equal(x, y.reshape(keepdims_shape, copy=False), out=mask)
    np.sum(mask, axis=axes, keepdims=True, out=part)
    np.divide(dy.reshape(keepdims_shape, copy=False), part, out=part)
    np.multiply(part, mask, out=dx)


def extreme(name: str, find: Callable[..., Array], quantized: QuantizedDef | None = None) -> OpDef:
    """Makes the row of REDUCE_MAX or REDUCE_MIN; `find` is np.max or np.min.

    dx = dy / n at each of the n elements equal to y, else 0, as in TensorFlow and PyTorch's amax.
    """

    def forward(
        attrs: ReduceAttrs, *, x: Array, y: Array, axes: Axes, keepdims_shape: Axes, count: int
    ) -> None:
        find(x, axis=axes, keepdims=True, out=y.reshape(keepdims_shape, copy=False))

    return OpDef(
        name,
        inputs=("x", "axes"),
        infer=infer_extreme,
        forward=Kernel(
            forward,
            reads=("x",),
            writes=("y",),
            prepare=prepare,
            compiled=elementwise.extreme(is_min=find is np.min),
        ),
        grads={
            "x": Kernel(
                extreme_grad_x,
                reads=("dy", "x", "y"),
                writes=("dx",),
                workspace=extreme_workspace,
                prepare=prepare,
                compiled=elementwise.EXTREME_BACK,
                may_alias=frozenset({("dx", "x")}),
            )
        },
        static=("axes",),
        attrs=reduce_attrs,
        mixes_samples=mixes_samples,
        add_batch_axis=later_axes,
        permute=moved_axes,
        quantized=quantized,
    )


def infer_logical(attrs: ReduceAttrs, s: Specs) -> Specs:
    bool_like_x(attrs, s)
    return infer(attrs, s)


def logical(name: str, f: np.ufunc) -> OpDef:
    """Makes the row of REDUCE_ANY or REDUCE_ALL; `f` is np.logical_or or np.logical_and."""

    def forward(
        attrs: ReduceAttrs, *, x: Array, y: Array, axes: Axes, keepdims_shape: Axes, count: int
    ) -> None:
        f.reduce(x, axis=axes, keepdims=True, out=y.reshape(keepdims_shape, copy=False))

    return OpDef(
        name,
        inputs=("x", "axes"),
        infer=infer_logical,
        forward=Kernel(
            forward,
            reads=("x",),
            writes=("y",),
            prepare=prepare,
            compiled=any_or_all(is_all=f is np.logical_and),
        ),
        grads={},
        stops=("x",),
        static=("axes",),
        attrs=reduce_attrs,
        mixes_samples=mixes_samples,
        add_batch_axis=later_axes,
        permute=moved_axes,
    )
