"""Compiled elementwise kernels on arrays that are broadcast to one shape.

A result with fewer or shorter axes than that shape is summed over these axes.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from odt.kernels.geometry.reduce_geometry import (
    ReduceAttrs,
    prepare,
    reduced_axes,
    shape_with_keepdims,
)
from odt.kernels.native.binding import bind, in_order
from odt.kernels.native.float32 import FLOAT, is_float32
from odt.kernels.native.structs import MAX_INPUTS, MAX_RANK, ElementwiseShape
from odt.kernels.rows.opdef import Array, Attrs, Compiled, Specs, TensorSpec

Axes = tuple[tuple[int, tuple[int, ...]], ...]
Number = float | Callable[[Attrs], float]
SHARED = 0, 0, 0.0, 0.0  # the last arguments of extreme_back: equals share, without a ReLU mask


@lru_cache(maxsize=1024)
def elementwise_shape(axes: Axes) -> ElementwiseShape:
    """Returns the axes as the struct that kernels take; programs and layers share it."""
    shape = ElementwiseShape(rank=len(axes))
    for k, (size, (y, *inputs)) in enumerate(axes):
        shape.sizes[k], shape.y[k] = size, y
        for number, stride in enumerate(inputs):
            shape.inputs[number][k] = stride
    return shape


@lru_cache(maxsize=1024)
def broadcast_strides(*shapes: tuple[int, ...]) -> Axes:
    """Returns the axes of the broadcast shape, each with its size and the stride of every array.

    Neighboring axes that are contiguous in every array are merged.
    """
    whole = np.broadcast_shapes(*shapes)
    padded = [(1,) * (len(whole) - len(s)) + s for s in shapes]
    axes: list[tuple[int, tuple[int, ...]]] = []
    for k, size in enumerate(whole):
        if size == 1:
            continue
        strides = tuple(0 if s[k] == 1 else prod(s[k + 1 :]) for s in padded)
        if axes and axes[-1][1] == tuple(n * size for n in strides):
            axes[-1] = axes[-1][0] * size, strides
        else:
            axes.append((size, strides))
    return tuple(axes) or ((1, (1,) * len(shapes)),)


def call(
    name: str, y: Array, inputs: Sequence[Array], p: float = 1.0, q: float = 1.0
) -> Callable[[], None]:
    """Returns a call of the map `name` in elementwise_maps.h with the numbers p and q."""
    shape = elementwise_shape(broadcast_strides(*(a.shape for a in (y, *inputs))))
    absent = [None] * (MAX_INPUTS - len(inputs))
    return bind(f"map_{name}", shape, y, *inputs, *absent, float(p), float(q))


def kernel(
    name: str | Callable[[Attrs], str],
    y: str,
    inputs: tuple[str, ...],
    p: Number = 1.0,
    q: Number = 1.0,
) -> Compiled:
    """Makes the compiled form of a kernel that is the map `name` from inputs to y.

    Args:
        name: name of the map, or attrs → name.
        y, inputs: names of the kernel's arrays; an input may appear twice.
        p, q: numbers of the map, or attrs → number.
    """

    def to_call(attrs: Attrs, **arrays: Any) -> Callable[[], None]:
        numbers = (n(attrs) if callable(n) else n for n in (p, q))
        map_name = name(attrs) if callable(name) else name
        return call(map_name, arrays[y], [arrays[n] for n in inputs], *numbers)

    return Compiled(to_call, fits(y, *inputs))


def fits(*names: str) -> Callable[[Attrs, Specs], bool]:
    """Makes a check that arrays are float32 and not empty, with at most MAX_RANK merged axes."""

    def check(attrs: Attrs, s: Specs) -> bool:
        specs = [s[n] if n in s else s[n[1:]] for n in names]  # dx has the spec of x
        if not all(spec.dtype == FLOAT and all(spec.shape) for spec in specs):
            return False
        return len(broadcast_strides(*(spec.shape for spec in specs))) <= MAX_RANK

    return check


def clamp(lo: float, hi: float) -> Compiled:
    """Makes the compiled form of y = x limited to lo and hi."""
    return kernel("clamp", "y", ("x",), lo, hi)


def relu_mask(lo: float, hi: float) -> Compiled:
    """Makes the compiled form of dx = dy where lo < y < hi, else 0."""
    return kernel("relu_mask", "dx", ("dy", "y"), lo, hi)


HALF = np.full(1, 0.5, FLOAT)


def select(condition_shape: Callable[[Specs], tuple[int, ...]]) -> Callable[..., Compiled]:
    """Makes maps of arrays and of a condition c, which becomes 1 or 0 in workspace.

    Args:
        condition_shape: returns the shape of c that is broadcast to y.

    Returns:
        A function of the result, the map and the arrays it reads: the map `select` reads c after
        them, others compare c with 0.5.
    """

    def compiled(y: str, name: str, *inputs: str) -> Compiled:
        def prepare(attrs: Attrs, s: Specs) -> Mapping[str, Any]:
            return {"shape": condition_shape(s)}

        def workspace(attrs: Attrs, s: Specs) -> Specs:
            return {"truths": TensorSpec(s["c"].shape, FLOAT)}

        def check(attrs: Attrs, s: Specs) -> bool:
            condition = TensorSpec(condition_shape(s), FLOAT)
            return fits(y, *inputs, "condition")(attrs, {**s, "condition": condition})

        def to_call(
            attrs: Attrs, *, c: Array, truths: Array, shape: tuple[int, ...], **arrays: Array
        ) -> Callable[[], None]:
            read = [*(arrays[n] for n in inputs), truths.reshape(shape, copy=False)]
            params = [] if name == "select" else [HALF]
            selection = call(name, arrays[y], [*read, *params])
            return in_order([bind("truths", c, truths, c.size), selection])

        return Compiled(to_call, check, workspace, prepare)

    return compiled


def _add(
    attrs: Attrs, *, a: Array, b: Array, y: Array, clamp: tuple[float, float] | None = None
) -> Callable[[], None]:
    return call("add", y, (a, b), *(clamp or (-np.inf, np.inf)))


ADD = Compiled(_add, fits("a", "b", "y"), takes=frozenset({"clamp"}))


def column_sums(x: Array, y: Array, width: int, first: int = 0) -> Callable[[], None]:
    """Returns a call: y = the sums of y.size columns of x from `first` on; rows have `width`."""
    shape = elementwise_shape(((x.size // width, (0, width)), (y.size, (1, 1))))
    return bind("map_scale", shape, y, x.reshape(-1, copy=False)[first:], None, None, 1.0, 1.0)


def _column_sums(attrs: Attrs, *, dy: Array, db: Array) -> Callable[[], None]:
    return column_sums(dy, db, db.size)


COLUMN_SUMS = Compiled(_column_sums, lambda attrs, s: is_float32(s))


def sums(name: str, p: float = 1.0) -> Compiled:
    """Makes p · dy, summed over the axes along which the input `name` was broadcast."""
    return kernel("scale", f"d{name}", ("dy",), p)


def _fits_rank(attrs: ReduceAttrs, s: Specs) -> bool:
    x = s["x"]
    return x.dtype == FLOAT and x.size > 0 and len(x.shape) <= MAX_RANK


def reduction(*, mean: bool, back: bool) -> Compiled:
    """Makes the sum or mean over axes; with `back`, its gradient, broadcast over these axes."""
    output, input_name = ("dx", "dy") if back else ("y", "x")

    def to_call(
        attrs: ReduceAttrs,
        *,
        axes: Any,
        keepdims_shape: tuple[int, ...],
        count: int,
        **arrays: Array,
    ) -> Callable[[], None]:
        y, x = arrays[output], arrays[input_name]
        if back:
            x = x.reshape(keepdims_shape, copy=False)
        else:
            y = y.reshape(keepdims_shape, copy=False)
        return call("scale", y, (x,), 1 / count if mean else 1.0)

    return Compiled(to_call, _fits_rank, prepare=prepare)


SUM, SUM_BACK = (reduction(mean=False, back=back) for back in (False, True))
MEAN, MEAN_BACK = (reduction(mean=True, back=back) for back in (False, True))


def reduced_sizes(attrs: ReduceAttrs, x: TensorSpec) -> list[int] | None:
    """Returns the sizes of x as (outer, reduced, inner), None if reduced axes are not adjacent."""
    y_shape = shape_with_keepdims(x.shape, reduced_axes(attrs, x))
    axes = broadcast_strides(y_shape, x.shape)
    reduced = [k for k, (_, (y_stride, _)) in enumerate(axes) if y_stride == 0]
    if len(reduced) > 1:
        return None
    first = reduced[0] if reduced else len(axes)
    parts = axes[:first], axes[first : first + 1], axes[first + 1 :]
    return [prod(size for size, _ in part) for part in parts]


def extreme(*, is_min: bool) -> Compiled:
    """Makes the maximum or minimum over axes."""

    def to_call(attrs: ReduceAttrs, *, x: Array, y: Array, **geometry: Any) -> Callable[[], None]:
        sizes = reduced_sizes(attrs, TensorSpec(x.shape, x.dtype))
        assert sizes is not None, "fits is false"
        return bind("extreme", x, y, *sizes, int(is_min))

    def check(attrs: ReduceAttrs, s: Specs) -> bool:
        x = s["x"]
        return x.dtype == FLOAT and x.size > 0 and reduced_sizes(attrs, x) is not None

    return Compiled(to_call, check, prepare=prepare)


def _extreme_back(
    attrs: ReduceAttrs,
    *,
    dy: Array,
    x: Array,
    y: Array,
    dx: Array,
    axes: Any,
    keepdims_shape: tuple[int, ...],
    count: int,
    gradient: Array | None = None,
) -> Callable[[], None]:
    if gradient is None:
        sizes = reduced_sizes(attrs, TensorSpec(x.shape, x.dtype))
        assert sizes is not None, "the workspace is for other axes"
        return bind("extreme_back", dy, x, y, dx, *sizes, *SHARED)
    y, share = (a.reshape(keepdims_shape, copy=False) for a in (y, gradient))
    return in_order(
        [
            call("equal", share, (x, y)),  # the number of elements equal to y
            call("divide", gradient, (dy, gradient)),
            call("where_equal", dx, (share, x, y)),
        ]
    )


def _one_per_result(attrs: ReduceAttrs, s: Specs) -> Specs:
    """Returns the workspace if reduced axes are not adjacent; else one call needs none."""
    return {} if reduced_sizes(attrs, s["x"]) else {"gradient": s["y"]}


EXTREME_BACK = Compiled(_extreme_back, _fits_rank, _one_per_result, prepare)
