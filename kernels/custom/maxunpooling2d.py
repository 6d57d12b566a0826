"""CUSTOM:MaxUnpooling2D: puts each value back to its position in a window, with zeros elsewhere.

x, indices (N, H, W, C)    y (N, H KH, W KW, C)

indices holds positions in windows of KH × KW (kernels/families/pool_indices.py), which do not
overlap: their stride is their size. dx is dy at the positions; indices has no gradient.
Source: max_unpooling.cc in MediaPipe, which stores the options as TfLitePoolParams.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families import pool_indices
from odt.kernels.families.pool_indices import SPREAD, positions_of, read_positions
from odt.kernels.geometry.conv_geometry import Axes
from odt.kernels.geometry.pool_geometry import PoolAttrs, geometry
from odt.kernels.geometry.window import windows
from odt.kernels.native import pool
from odt.kernels.native.binding import Run, bind, in_order
from odt.kernels.native.copies import copy
from odt.kernels.native.elementwise import call
from odt.kernels.rows.opdef import Array, Compiled, Kernel, OpDef, Specs, TensorSpec

BOOL = np.dtype(bool)
ZERO = np.zeros(1, np.float32)


def infer(attrs: PoolAttrs, s: Specs) -> Specs:
    x, indices = s["x"], s["indices"]
    if len(x.shape) != 4 or x.dtype.kind != "f" or indices != x:
        raise ShapeError(
            f"x and indices must be (N, H, W, C) of one float type, but got x {x}, {indices}"
        )
    if attrs.stride != attrs.window or min(attrs.window) < 1:
        raise ShapeError(
            "the stride must be the size of the window, 1 or more, "
            f"but got {attrs.stride} and {attrs.window}"
        )
    (n, h, w, c), (height, width) = x.shape, attrs.window
    y = TensorSpec((n, h * height, w * width, c), x.dtype)
    attrs.axes(y)  # checks them
    return {"y": y}


def as_pool(s: Specs) -> Specs:
    """Returns the specs of the pooling from y to x."""
    return {"x": s["y"], "y": s["x"]}


def spreading(attrs: PoolAttrs, s: Specs) -> Mapping[str, Any]:
    return SPREAD.prepare(attrs, as_pool(s))


def walking(attrs: PoolAttrs, s: Specs) -> Mapping[str, Any]:
    return geometry(attrs, as_pool(s))


def reading(attrs: PoolAttrs, s: Specs) -> Mapping[str, Any]:
    return {"axes": attrs.axes(s["y"])}


def workspace(attrs: PoolAttrs, s: Specs) -> Specs:
    return {**positions(attrs, s), **SPREAD.workspace(attrs, as_pool(s))}


def positions(attrs: PoolAttrs, s: Specs) -> Specs:
    return positions_of(s["x"])


def forward(attrs: PoolAttrs, *, x: Array, y: Array, **kwargs: Any) -> None:
    pool_indices.spread(attrs, values=x, into=y, **kwargs)


def bind_forward(attrs: PoolAttrs, *, x: Array, y: Array, **kwargs: Any) -> Callable[[], None]:
    return pool_indices.bind_spread(attrs, values=x, into=y, **kwargs)


def fits(attrs: PoolAttrs, s: Specs) -> bool:
    return pool.fits(attrs, {**s, **as_pool(s)})


def back_workspace(attrs: PoolAttrs, s: Specs) -> Specs:
    return {**positions(attrs, s), "mask": TensorSpec(s["x"].shape, BOOL)}


def grad_x(
    attrs: PoolAttrs,
    *,
    dy: Array,
    indices: Array,
    dx: Array,
    positions: Array,
    mask: Array,
    axes: Axes,
) -> None:
    read_positions(indices, positions)()
    h, v = (a.reading for a in axes)
    view = windows(dy, h, v)
    dx.fill(0)
    for tap in range(h.taps * v.taps):
        np.equal(positions, tap, out=mask)
        np.copyto(dx, view[:, :, :, tap // v.taps, tap % v.taps], where=mask)


def selecting_workspace(attrs: PoolAttrs, s: Specs) -> Specs:
    x = s["x"]
    return {**back_workspace(attrs, s), "truths": x, "values": x}


def bind_grad_x(
    attrs: PoolAttrs,
    *,
    dy: Array,
    indices: Array,
    dx: Array,
    positions: Array,
    mask: Array,
    truths: Array,
    values: Array,
    axes: Axes,
) -> Callable[[], None]:
    h, v = (a.reading for a in axes)
    view = windows(dy, h, v)
    calls: list[Run] = [read_positions(indices, positions)]
    for tap in range(h.taps * v.taps):
        calls += [
            partial(np.equal, positions, tap, out=mask),
            bind("truths", mask, truths, truths.size),
            copy(view[:, :, :, tap // v.taps, tap % v.taps], values),
            call("select", dx, (values, dx if tap else ZERO, truths)),
        ]
    return in_order(calls)


OP = OpDef(
    "CUSTOM:MaxUnpooling2D",
    inputs=("x", "indices"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x", "indices"),
        writes=("y",),
        workspace=workspace,
        prepare=spreading,
        compiled=Compiled(bind_forward, fits, positions, walking),
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "indices"),
            writes=("dx",),
            workspace=back_workspace,
            prepare=reading,
            compiled=Compiled(bind_grad_x, fits, selecting_workspace, reading),
        )
    },
    stops=("indices",),
    attrs=pool_indices.attrs,
)
