"""Compiled kernels of DEPTHWISE_CONV_2D with a depth multiplier of 1."""

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


def fits(attrs: ConvAttrs, s: Specs) -> bool:
    _, height, width, channels = s["w"].shape
    return window_walk.fits(s, channels, height * width) and s["x"].shape[3] == channels


def correlate(
    x: Array,
    w: Array,
    y: Array,
    walk: WindowWalk,
    b: Array | None = None,
    clamp: Clamp | None = None,
    relu_mask: ReluMask | None = None,
) -> Callable[[], None]:
    """Computes y = windows of a channel times its taps, plus b; see src/depthwise.c."""
    opened, lo, hi = relu_mask or (None, *(clamp or (0.0, 0.0)))
    return bind("depthwise", x, w, b, opened, y, walk, int(clamp is not None), float(lo), float(hi))


def forward(
    attrs: ConvAttrs, *, x: Array, w: Array, y: Array, axes: Axes, source: PaddedImages, **more: Any
) -> Callable[[], None]:
    walk = forward_walk(x, w, y, axes)
    return correlate(x, w, y, walk, **more)


def grad_x(
    attrs: ConvAttrs,
    *,
    dy: Array,
    w: Array,
    dx: Array,
    axes: Axes,
    source: PaddedImages,
    pairs: Pairs,
    relu_mask: ReluMask | None = None,
) -> Callable[[], None]:
    walks = phase_walks(dy, w, dx, axes, source, pairs)
    return in_order([correlate(dy, w, dx, walk, relu_mask=relu_mask) for walk in walks])


def filter_workspace(attrs: ConvAttrs, s: Specs) -> Specs:
    _, height, width, channels = s["w"].shape
    row = channels + limit("MAX_LANES")
    return {"scratch": TensorSpec(((height * width + 9) * row,), FLOAT)}


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
    return bind("depthwise_filter_sums", dy, x, dw, db, scratch, walk)


FORWARD = Compiled(forward, fits, prepare=geometry, takes=frozenset({"clamp"}))
GRAD_X = Compiled(grad_x, fits, prepare=back_geometry, takes=frozenset({"relu_mask"}))
GRAD_W = Compiled(grad_w, fits, filter_workspace, geometry, takes=frozenset({"bias_gradient"}))
