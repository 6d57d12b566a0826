"""The kernels of CONV_2D in compiled code."""

from collections.abc import Callable
from typing import Any

from odt.kernels.columns import Source
from odt.kernels.convolution import Axes, ConvAttrs, Pairs, back_geometry, geometry
from odt.kernels.native import bind, products
from odt.kernels.opdef import Array, Compiled, Specs


def fits(attrs: ConvAttrs, s: Specs) -> bool:
    w = s["w"].shape
    return products.fits(s, max(w[0], w[3]), w[1] * w[2])


def forward_room(attrs: ConvAttrs, s: Specs) -> Specs:
    w = s["w"]
    return products.panel(w.size // w.shape[0], w.shape[0])


def forward(
    attrs: ConvAttrs,
    *,
    x: Array,
    w: Array,
    y: Array,
    panel: Array,
    axes: Axes,
    source: Source,
    **more: Any,
) -> Callable[[], None]:
    walk = products.forward_walk(x, w, y, axes)
    return products.correlate(x, w, y, panel, walk, **more)


def back_room(attrs: ConvAttrs, s: Specs) -> Specs:
    """Weights are repacked where a pixel of dx does not fill a vector."""
    w = s["w"]
    narrow = w.shape[3] < products.WIDEST
    return products.panel(w.size // w.shape[3], w.shape[3]) if narrow else {}


def grad_x(
    attrs: ConvAttrs,
    *,
    dy: Array,
    w: Array,
    dx: Array,
    axes: Axes,
    source: Source,
    pairs: Pairs,
    panel: Array | None = None,
    gate: products.Gate | None = None,
) -> Callable[[], None]:
    walks = products.phase_walks(dy, w, dx, axes, source, pairs)
    return products.in_order(
        [products.correlate(dy, w, dx, panel, walk, gate=gate) for walk in walks]
    )


def filter_room(attrs: ConvAttrs, s: Specs) -> Specs:
    units, height, width, depth = s["w"].shape
    return products.sums(units, height * width, depth)


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
    return bind("filter_sums", dy, x, dw, sums, room, walk)


FORWARD = Compiled(forward, fits, forward_room, geometry, takes=frozenset({"clamp"}))
GRAD_X = Compiled(grad_x, fits, back_room, back_geometry, takes=frozenset({"gate"}))
GRAD_W = Compiled(grad_w, fits, filter_room, geometry, takes=frozenset({"sums"}))
