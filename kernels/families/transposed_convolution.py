"""Transposed convolution, the input gradient of a convolution as a forward pass.

w (O, KH, KW, C)    x (N, H, W, C)    b (O,) or absent    y (N, OH, OW, O)

Consider the convolution with this stride and padding from the shape of y to the shape of x. y is
its input gradient if x is its output gradient. With the windows of dy as columns:
dx = columns w      dw = columnsᵀ x      db = Σ dy
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.kernels.families.bias import GRAD_B
from odt.kernels.families.convolution import (
    correlate,
    filter_sums,
    phase_scratch,
    sum_phases,
    window_scratch,
)
from odt.kernels.geometry.conv_geometry import ConvAttrs, back_geometry, geometry
from odt.kernels.native import transpose_conv
from odt.kernels.rows.opdef import Array, Kernel, Specs, TensorSpec


def flops(attrs: ConvAttrs, s: Specs) -> int:
    """Counts the products of each value of x with the filters."""
    return 2 * s["x"].size * (s["w"].size // s["w"].shape[3])


def spreading(attrs: ConvAttrs, s: Specs) -> Mapping[str, Any]:
    """Prepares axes, source and pairs of y as the input gradient of the convolution."""
    return back_geometry(attrs, {"dx": s["y"], "w": s["w"], "dy": s["x"]})


def gathering(attrs: ConvAttrs, s: Specs) -> Mapping[str, Any]:
    """Prepares axes and source of the windows of dy."""
    return geometry(attrs, {"x": s["dy"], "w": s["w"]})


def phase_workspace(attrs: ConvAttrs, s: Specs) -> Specs:
    _, source, pairs = spreading(attrs, s).values()
    return phase_scratch(source, pairs, s["x"].shape[3], s["y"].shape[3], s["x"].dtype)


def window_workspace(attrs: ConvAttrs, s: Specs) -> Specs:
    """Returns the workspace: columns, and the convolution's filters, with O and C exchanged."""
    axes, source = gathering(attrs, s).values()
    units, height, width, channels = s["w"].shape
    dtype = s["w"].dtype
    exchanged = TensorSpec((channels, height, width, units), dtype)
    return {**window_scratch(axes, source, dtype), "filters": exchanged}


def filter_workspace(attrs: ConvAttrs, s: Specs) -> Specs:
    specs = window_workspace(attrs, s)
    return {**specs, "part": specs["filters"]}


def forward(
    attrs: ConvAttrs, *, x: Array, w: Array, y: Array, b: Array | None = None, **walk: Any
) -> None:
    sum_phases(x, w.transpose(1, 2, 3, 0), y, **walk)
    if b is not None:
        np.add(y, b, out=y)


def grad_x(
    attrs: ConvAttrs, *, dy: Array, w: Array, dx: Array, filters: Array, **walk: Any
) -> None:
    np.copyto(filters, w.transpose(3, 1, 2, 0))
    correlate(dy, filters.reshape(w.shape[3], -1, copy=False).T, dx, None, **walk)


def grad_w(
    attrs: ConvAttrs, *, dy: Array, x: Array, dw: Array, filters: Array, **walk: Any
) -> None:
    filter_sums(x, dy, filters, **walk)
    np.copyto(dw, filters.transpose(3, 1, 2, 0))


_FORWARD, _GRAD_X, _GRAD_W = transpose_conv.compiled_kernels(spreading, gathering)

FORWARD = Kernel(
    forward,
    reads=("w", "x", "b?"),
    writes=("y",),
    workspace=phase_workspace,
    prepare=spreading,
    compiled=_FORWARD,
)
GRADS = {
    "w": Kernel(
        grad_w,
        reads=("dy", "x"),
        writes=("dw",),
        workspace=filter_workspace,
        prepare=gathering,
        compiled=_GRAD_W,
    ),
    "x": Kernel(
        grad_x,
        reads=("dy", "w"),
        writes=("dx",),
        workspace=window_workspace,
        prepare=gathering,
        compiled=_GRAD_X,
    ),
    "b": GRAD_B,
}
