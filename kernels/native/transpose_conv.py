"""Compiled kernels of TRANSPOSE_CONV: those of a convolution, with output and depth exchanged."""

from collections.abc import Callable, Mapping
from typing import Any

from odt.kernels.geometry.conv_geometry import Axes, Pairs
from odt.kernels.geometry.im2col import PaddedImages
from odt.kernels.native.binding import bind, in_order
from odt.kernels.native.convolution import (
    back_workspace,
    correlate,
    fits,
    forward_workspace,
    sums_workspace,
)
from odt.kernels.native.copies import copy
from odt.kernels.native.float32 import FLOAT
from odt.kernels.native.window_walk import forward_walk, phase_walks
from odt.kernels.opdef import Array, Attrs, Compiled, Specs, TensorSpec


def forward(
    attrs: Attrs,
    *,
    x: Array,
    w: Array,
    y: Array,
    panel: Array,
    axes: Axes,
    source: PaddedImages,
    pairs: Pairs,
    **more: Any,
) -> Callable[[], None]:
    walks = phase_walks(x, w, y, axes, source, pairs, transposed=True)
    return in_order([correlate(x, w, y, panel, walk, **more) for walk in walks])


def grad_x(
    attrs: Attrs,
    *,
    dy: Array,
    w: Array,
    dx: Array,
    axes: Axes,
    source: PaddedImages,
    panel: Array | None = None,
    **more: Any,
) -> Callable[[], None]:
    walk = forward_walk(dy, w, dx, axes, transposed=True)
    return correlate(dy, w, dx, panel, walk, **more)


def filter_workspace(attrs: Attrs, s: Specs) -> Specs:
    units, height, width, channels = s["w"].shape
    filters = TensorSpec((channels, height, width, units), FLOAT)
    return {"filters": filters, **sums_workspace(channels, height * width, units)}


def grad_w(
    attrs: Attrs,
    *,
    dy: Array,
    x: Array,
    dw: Array,
    filters: Array,
    scratch: Array,
    axes: Axes,
    source: PaddedImages,
) -> Callable[[], None]:
    """Binds the gradient: dw of the convolution from y to x, with its axes exchanged."""
    walk = forward_walk(dy, filters, x, axes)
    return in_order(
        [
            bind("filter_sums", x, dy, filters, None, scratch, walk),
            copy(filters.transpose(3, 1, 2, 0), dw),
        ]
    )


Prepare = Callable[[Attrs, Specs], Mapping[str, Any]]


def of(spreading: Prepare, gathering: Prepare) -> tuple[Compiled, Compiled, Compiled]:
    """Makes the compiled forms: forward, grad_x, grad_w.

    Args:
        spreading: returns axes, source and pairs of y as the input gradient of the convolution.
        gathering: returns axes and source of the windows of dy.
    """
    return (
        Compiled(forward, fits, forward_workspace, spreading, takes=frozenset({"clamp"})),
        Compiled(grad_x, fits, back_workspace, gathering, takes=frozenset({"relu_mask"})),
        Compiled(grad_w, fits, filter_workspace, gathering),
    )
