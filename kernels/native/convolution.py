"""Compiled kernels of CONV_2D, and the products over windows that TRANSPOSE_CONV shares."""

from collections.abc import Callable
from typing import Any

from odt.kernels.geometry.conv_geometry import Axes, ConvAttrs, Pairs, back_geometry, geometry
from odt.kernels.geometry.im2col import PaddedImages
from odt.kernels.native import window_walk
from odt.kernels.native.binding import bind, in_order
from odt.kernels.native.epilogue import Clamp, ReluMask
from odt.kernels.native.float32 import FLOAT
from odt.kernels.native.library import limit
from odt.kernels.native.structs import WindowWalk
from odt.kernels.native.window_walk import forward_walk, phase_walks
from odt.kernels.opdef import Array, Compiled, Specs, TensorSpec


def panel_workspace(depth: int, units: int) -> Specs:
    """Returns the workspace for packed weights, enough for every instruction set."""
    lanes = limit("MAX_LANES")
    return {"panel": TensorSpec((depth * -(-units // lanes) * lanes,), FLOAT)}


def sums_workspace(units: int, taps: int, depth: int) -> Specs:
    """Returns the workspace for the sums of the filter gradient, for every instruction set."""
    lanes, gathered = limit("MAX_LANES"), 0
    if depth < lanes:
        gathered = limit("GATHER_PARTS") * limit("PIXELS") * (taps * depth + lanes)
    in_place = depth % lanes == 0 and depth >= lanes
    summed = 0 if in_place else units * taps * (depth + lanes)
    return {"scratch": TensorSpec((gathered + summed,), FLOAT)}


def correlate(
    x: Array,
    w: Array,
    y: Array,
    panel: Array | None,
    walk: WindowWalk,
    b: Array | None = None,
    clamp: Clamp | None = None,
    relu_mask: ReluMask | None = None,
) -> Callable[[], None]:
    """Computes y = windows of x times w, plus b, with an epilogue: see src/convolution.c."""
    opened, lo, hi = relu_mask or (None, *(clamp or (0.0, 0.0)))
    return bind(
        "correlate", x, w, b, opened, y, panel, walk, int(clamp is not None), float(lo), float(hi)
    )


def fits(attrs: ConvAttrs, s: Specs) -> bool:
    w = s["w"].shape
    return window_walk.fits(s, max(w[0], w[3]), w[1] * w[2])


def forward_workspace(attrs: ConvAttrs, s: Specs) -> Specs:
    w = s["w"]
    return panel_workspace(w.size // w.shape[0], w.shape[0])


def forward(
    attrs: ConvAttrs,
    *,
    x: Array,
    w: Array,
    y: Array,
    panel: Array,
    axes: Axes,
    source: PaddedImages,
    **more: Any,
) -> Callable[[], None]:
    walk = forward_walk(x, w, y, axes)
    return correlate(x, w, y, panel, walk, **more)


def back_workspace(attrs: ConvAttrs, s: Specs) -> Specs:
    """Returns the workspace for packed weights, used if the channels of dx do not fill a vector."""
    w = s["w"]
    narrow = w.shape[3] < limit("MAX_LANES")
    return panel_workspace(w.size // w.shape[3], w.shape[3]) if narrow else {}


def grad_x(
    attrs: ConvAttrs,
    *,
    dy: Array,
    w: Array,
    dx: Array,
    axes: Axes,
    source: PaddedImages,
    pairs: Pairs,
    panel: Array | None = None,
    relu_mask: ReluMask | None = None,
) -> Callable[[], None]:
    walks = phase_walks(dy, w, dx, axes, source, pairs)
    return in_order([correlate(dy, w, dx, panel, walk, relu_mask=relu_mask) for walk in walks])


def filter_workspace(attrs: ConvAttrs, s: Specs) -> Specs:
    units, height, width, depth = s["w"].shape
    return sums_workspace(units, height * width, depth)


def grad_w(
    attrs: ConvAttrs,
    *,
    dy: Array,
    x: Array,
    dw: Array,
    scratch: Array,
    axes: Axes,
    source: PaddedImages,
    db: Array | None = None,
) -> Callable[[], None]:
    walk = forward_walk(x, dw, dy, axes)
    return bind("filter_sums", dy, x, dw, db, scratch, walk)


FORWARD = Compiled(forward, fits, forward_workspace, geometry, takes=frozenset({"clamp"}))
GRAD_X = Compiled(grad_x, fits, back_workspace, back_geometry, takes=frozenset({"relu_mask"}))
GRAD_W = Compiled(grad_w, fits, filter_workspace, geometry, takes=frozenset({"bias_gradient"}))
