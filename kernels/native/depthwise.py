"""The kernels of DEPTHWISE_CONV_2D in compiled code, for a multiplier of 1."""

from collections.abc import Callable
from typing import Any

from odt.kernels.columns import Source
from odt.kernels.convolution import Axes, ConvAttrs, Pairs, back_geometry, geometry
from odt.kernels.native import bind, products
from odt.kernels.opdef import Array, Compiled, Specs, TensorSpec


def fits(attrs: ConvAttrs, s: Specs) -> bool:
    _, height, width, channels = s["w"].shape
    return products.fits(s, channels, height * width) and s["x"].shape[3] == channels


def forward(
    attrs: ConvAttrs, *, x: Array, w: Array, y: Array, axes: Axes, source: Source, **more: Any
) -> Callable[[], None]:
    walk = products.forward_walk(x, w, y, axes)
    return products.depthwise(x, w, y, walk, **more)


def grad_x(
    attrs: ConvAttrs,
    *,
    dy: Array,
    w: Array,
    dx: Array,
    axes: Axes,
    source: Source,
    pairs: Pairs,
    gate: products.Gate | None = None,
) -> Callable[[], None]:
    walks = products.phase_walks(dy, w, dx, axes, source, pairs)
    return products.in_order([products.depthwise(dy, w, dx, walk, gate=gate) for walk in walks])


def filter_room(attrs: ConvAttrs, s: Specs) -> Specs:
    _, height, width, channels = s["w"].shape
    row = channels + products.WIDEST
    return {"room": TensorSpec(((height * width + 9) * row,), products.FLOAT)}


def grad_w(
    attrs: ConvAttrs,
    *,
    dy: Array,
    x: Array,
    dw: Array,
    room: Array,
    axes: Axes,
    source: Source,
    sums: Array | None = None,
) -> Callable[[], None]:
    walk = products.forward_walk(x, dw, dy, axes)
    return bind("depthwise_filter_sums", dy, x, dw, sums, room, walk)


FORWARD = Compiled(forward, fits, prepare=geometry, takes=frozenset({"clamp"}))
GRAD_X = Compiled(grad_x, fits, prepare=back_geometry, takes=frozenset({"gate"}))
GRAD_W = Compiled(grad_w, fits, filter_room, geometry, takes=frozenset({"sums"}))
