"""Compiled kernels of DEPTHWISE_CONV_2D.

With a depth multiplier M, each channel of x is repeated M times in workspace, so that all channels
of y have one of their own; dx is the sum over the repetitions.
"""

from collections.abc import Callable, Sequence
from typing import Any

from odt.kernels.geometry.conv_geometry import Axes, ConvAttrs, Pairs, back_geometry, geometry
from odt.kernels.geometry.im2col import PaddedImages
from odt.kernels.native import elementwise
from odt.kernels.native.binding import bind, in_order, structs
from odt.kernels.native.float32 import FLOAT, is_float32
from odt.kernels.native.library import limit
from odt.kernels.native.structs import WindowWalk
from odt.kernels.native.window_walk import along_longer_axis, forward_walk, phase_walks
from odt.kernels.rows.opdef import Array, Clamp, Compiled, ReluMask, Specs, TensorSpec


def fits(attrs: ConvAttrs, s: Specs) -> bool:
    return is_float32(s)


def repeated(s: Specs, name: str) -> Specs:
    """Returns the workspace for the repeated channels of x or dx; none without a multiplier."""
    x, channels = s[name], s["w"].shape[3]
    if x.shape[3] == channels:
        return {}
    return {"repeated": TensorSpec((*x.shape[:3], channels), FLOAT)}


def repeat(x: Array, images: Array | None) -> tuple[Array, list[Callable[[], None]]]:
    """Returns the images with repeated channels, and the call that fills them, if there is one."""
    if images is None:
        return x, []
    return images, [bind("repeat_channels", x, images, x.size, images.size // x.size)]


def correlate(
    x: Array,
    w: Array,
    y: Array,
    walks: Sequence[WindowWalk],
    b: Array | None = None,
    clamp: Clamp | None = None,
    relu_mask: ReluMask | None = None,
) -> Callable[[], None]:
    """Returns a call that computes y = windows of a channel times its taps, plus b."""
    mask_input, lo, hi = relu_mask or (None, *(clamp or (0.0, 0.0)))
    most, calls = limit("MAX_WALKS"), []
    for at in range(0, len(walks), most):
        windows = structs([along_longer_axis(walk) for walk in walks[at : at + most]])
        numbers = len(windows), int(clamp is not None), float(lo), float(hi)
        calls.append(bind("depthwise", x, w, b, mask_input, y, windows, *numbers))
    return in_order(calls)


def forward_workspace(attrs: ConvAttrs, s: Specs) -> Specs:
    return repeated(s, "x")


def forward(
    attrs: ConvAttrs,
    *,
    x: Array,
    w: Array,
    y: Array,
    axes: Axes,
    source: PaddedImages,
    repeated: Array | None = None,
    **kwargs: Any,
) -> Callable[[], None]:
    x, calls = repeat(x, repeated)
    return in_order([*calls, correlate(x, w, y, [forward_walk(x, w, y, axes)], **kwargs)])


def back_workspace(attrs: ConvAttrs, s: Specs) -> Specs:
    return repeated(s, "dx")


def grad_x(
    attrs: ConvAttrs,
    *,
    dy: Array,
    w: Array,
    dx: Array,
    axes: Axes,
    source: PaddedImages,
    pairs: Pairs,
    repeated: Array | None = None,
    relu_mask: ReluMask | None = None,
) -> Callable[[], None]:
    if repeated is None:
        walks = phase_walks(dy, w, dx, axes, source, pairs)
        return correlate(dy, w, dx, walks, relu_mask=relu_mask)
    walks = phase_walks(dy, w, repeated, axes, source, pairs)
    calls = [correlate(dy, w, repeated, walks)]
    calls.append(bind("sum_repeated", repeated, dx, dx.size, repeated.size // dx.size))
    if relu_mask is not None:
        mask_input, lo, hi = relu_mask
        calls.append(elementwise.call("relu_mask", dx, [dx, mask_input], lo, hi))
    return in_order(calls)


def filter_workspace(attrs: ConvAttrs, s: Specs) -> Specs:
    _, height, width, channels = s["w"].shape
    row = channels + limit("MAX_LANES")
    scratch = TensorSpec((height * width * row,), FLOAT)
    return {"scratch": scratch, **repeated(s, "x")}


def grad_w(
    attrs: ConvAttrs,
    *,
    dy: Array,
    x: Array,
    dw: Array,
    scratch: Array,
    axes: Axes,
    source: PaddedImages,
    repeated: Array | None = None,
    db: Array | None = None,
) -> Callable[[], None]:
    x, calls = repeat(x, repeated)
    walk = along_longer_axis(forward_walk(x, dw, dy, axes))
    return in_order([*calls, bind("depthwise_filter_sums", dy, x, dw, db, scratch, walk)])


FORWARD = Compiled(forward, fits, forward_workspace, geometry, takes=frozenset({"clamp"}))
GRAD_X = Compiled(grad_x, fits, back_workspace, back_geometry, takes=frozenset({"relu_mask"}))
GRAD_W = Compiled(grad_w, fits, filter_workspace, geometry, takes=frozenset({"bias_gradient"}))
