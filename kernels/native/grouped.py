"""Compiled kernels of CONV_2D with groups of channels.

Groups of few channels, with as many units, have kernels of their own (src/grouped.c). Other groups
are computed one after the other, in place.
"""

from collections.abc import Callable, Sequence
from typing import Any

from odt.dataclass import replace
from odt.kernels.geometry.conv_geometry import Axes, ConvAttrs, Pairs, groups_of
from odt.kernels.geometry.im2col import PaddedImages
from odt.kernels.native import convolution
from odt.kernels.native.binding import bind, in_order
from odt.kernels.native.elementwise import column_sums
from odt.kernels.native.float32 import FLOAT
from odt.kernels.native.library import kernels_in_use, limit
from odt.kernels.native.structs import WindowWalk
from odt.kernels.native.window_walk import changed, forward_walk, phase_walks
from odt.kernels.rows.opdef import Array, Clamp, ReluMask, Specs, TensorSpec

NARROW = (2, 4)  # channels of the groups of src/grouped.c
WIDE_NARROW = (2, 4, 8)  # the same, with vectors of 8 or more


def is_narrow(w: tuple[int, ...], groups: int) -> bool:
    """Whether src/grouped.c has a kernel for filters (O, KH, KW, C)."""
    units, *_, channels = w
    narrow = WIDE_NARROW if kernels_in_use().startswith("avx") else NARROW
    whole_vectors = units % limit("MAX_LANES") == 0
    return channels in narrow and units == groups * channels and whole_vectors


def _panel(w: TensorSpec) -> TensorSpec:
    return TensorSpec((w.size,), FLOAT)


def forward_workspace(attrs: ConvAttrs, s: Specs) -> Specs:
    groups = groups_of(s)
    if groups == 1:
        return convolution.forward_workspace(attrs, s)
    if is_narrow(s["w"].shape, groups):
        return {"panel": _panel(s["w"])}
    units = s["w"].shape[0]
    return convolution.panel_workspace(s["w"].size // units, units // groups)


def back_workspace(attrs: ConvAttrs, s: Specs) -> Specs:
    groups = groups_of(s)
    if groups == 1:
        return convolution.back_workspace(attrs, s)
    if is_narrow(s["w"].shape, groups):
        return {"panel": _panel(s["w"])}
    channels = s["w"].shape[3]
    return convolution.panel_workspace(s["w"].size // groups // channels, channels)


def filter_workspace(attrs: ConvAttrs, s: Specs) -> Specs:
    groups = groups_of(s)
    if groups == 1:
        return convolution.filter_workspace(attrs, s)
    if is_narrow(s["w"].shape, groups):
        return {"scratch": _panel(s["w"])}
    units, height, width, depth = s["w"].shape
    (sums,) = convolution.sums_workspace(units // groups, height * width, depth).values()
    return {"scratch": TensorSpec((max(sums.size, 1),), FLOAT)}  # so that it is not in blocks


def packed(attrs: ConvAttrs, s: Specs) -> TensorSpec | None:
    groups = groups_of(s)
    if groups == 1:
        return convolution.packed(attrs, s)
    return _panel(s["w"]) if is_narrow(s["w"].shape, groups) else None


def correlate(
    x: Array,
    w: Array,
    y: Array,
    panel: Array,
    walks: Sequence[WindowWalk],
    groups: int,
    b: Array | None = None,
    clamp: Clamp | None = None,
    relu_mask: ReluMask | None = None,
    packing: str = "",
) -> Callable[[], None]:
    """As `convolution.correlate`, for windows of the channels of each group."""
    depth, units = x.shape[3] // groups, y.shape[3] // groups
    if is_narrow(w.shape, groups):
        mask_input, epilogue = convolution.epilogue_of(clamp, relu_mask, packing)
        return in_order(
            [
                bind(
                    "grouped_correlate",
                    *(x, w, b, mask_input, y, panel, changed(walk, depth=depth)),
                    *epilogue,
                )
                for walk in walks
            ]
        )
    size, calls = len(w) // groups, list[Callable[[], None]]()
    for k in range(groups):
        mask = relu_mask and (_from(relu_mask[0], k * units), *relu_mask[1:])
        arrays = _from(x, k * depth), w[k * size : (k + 1) * size], _from(y, k * units), panel
        bias = b if b is None else _from(b, k * units)
        for walk in walks:
            part = changed(walk, depth=depth, units=units)
            calls.append(convolution.correlate(*arrays, part, bias, clamp, mask))
    return in_order(calls)


def _from(a: Array, first: int) -> Array:
    """Returns the values of an array from one on, which is the first of a group."""
    return a.reshape(-1, copy=False)[first:]


def forward(
    attrs: ConvAttrs,
    *,
    x: Array,
    w: Array,
    y: Array,
    axes: Axes,
    source: PaddedImages,
    panel: Array | None = None,
    **kwargs: Any,
) -> Callable[[], None]:
    groups = x.shape[3] // w.shape[3]
    if groups == 1:
        geometry: dict[str, Any] = {"axes": axes, "source": source}
        return convolution.forward(attrs, x=x, w=w, y=y, panel=panel, **geometry, **kwargs)
    assert panel is not None, "weights of groups are packed"
    return correlate(x, w, y, panel, [forward_walk(x, w, y, axes)], groups, **kwargs)


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
    **kwargs: Any,
) -> Callable[[], None]:
    groups = dx.shape[3] // w.shape[3]
    if groups == 1:
        geometry: dict[str, Any] = {"axes": axes, "source": source, "pairs": pairs}
        return convolution.grad_x(attrs, dy=dy, w=w, dx=dx, panel=panel, **geometry, **kwargs)
    assert panel is not None, "weights of groups are packed"
    walks = phase_walks(dy, w, dx, axes, source, pairs)
    return correlate(dy, w, dx, panel, walks, groups, **kwargs)


def grad_w(
    attrs: ConvAttrs,
    *,
    dy: Array,
    x: Array,
    dw: Array,
    axes: Axes,
    source: PaddedImages,
    scratch: Array | None = None,
    db: Array | None = None,
    adds: Array | None = None,
    **kwargs: Any,
) -> Callable[[], None]:
    groups, walk = x.shape[3] // dw.shape[3], forward_walk(x, dw, dy, axes)
    if groups == 1:
        kwargs |= {"axes": axes, "source": source, "scratch": scratch, "db": db, "adds": adds}
        return convolution.grad_w(attrs, dy=dy, x=x, dw=dw, **kwargs)
    depth = dw.shape[3]
    if is_narrow(dw.shape, groups):
        windows = changed(walk, depth=depth)
        return bind("grouped_filter_sums", dy, x, dw, db, scratch, windows, adds)
    size = len(dw) // groups
    windows, calls = changed(walk, depth=depth, units=size), list[Callable[[], None]]()
    for k in range(groups):
        images, sums = _from(x, k * depth), dw[k * size : (k + 1) * size]
        calls.append(
            convolution.filter_sums(dy, images, sums, None, scratch, windows, k * size, adds)
        )
    if db is not None:
        calls.append(column_sums(dy, db, db.size))
    return in_order(calls)


FORWARD = replace(convolution.FORWARD, bind=forward, workspace=forward_workspace, packed=packed)
GRAD_X = replace(convolution.GRAD_X, bind=grad_x, workspace=back_workspace)
GRAD_W = replace(convolution.GRAD_W, bind=grad_w, workspace=filter_workspace)
