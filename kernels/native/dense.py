"""Compiled kernels of FULLY_CONNECTED: 1×1 convolutions whose pixels are the rows."""

from collections.abc import Callable
from functools import lru_cache

from odt.kernels.native import window_walk
from odt.kernels.native.bf16 import pairs, pays, rounded_workspace, with_bf16
from odt.kernels.native.binding import bind
from odt.kernels.native.convolution import (
    correlate,
    filter_sums,
    packed_weights,
    panel_workspace,
    sums_workspace,
)
from odt.kernels.native.float32 import VECTOR, is_float32
from odt.kernels.native.structs import WindowWalk
from odt.kernels.rows.opdef import Array, Attrs, Clamp, Compiled, ReluMask, Specs, TensorSpec

ONE_TAP = [(0, 0)]
# Packing weights pays with as many rows as the larger of these, as measured.
LEAST_ROWS = 24
DEPTH_PER_ROW = 24


def fits(attrs: Attrs, s: Specs) -> bool:
    return is_float32(s)


@lru_cache(maxsize=1024)
def walk(rows: int, depth: int, units: int, stride: int = 0, **weights: int) -> WindowWalk:
    """Returns the descriptor of rows as pixels of one image; `weights` are their strides.

    Rows are `stride` values apart, by default `depth`.
    """
    stride = stride or depth
    return window_walk.window_walk(
        ONE_TAP,
        ONE_TAP,
        **weights,
        images=1,
        rows=1,
        cols=rows,
        depth=depth,
        units=units,
        image_stride=rows * stride,
        row_stride=rows * stride,
        col_stride=stride,
        height=1,
        width=rows,
        stride_h=1,
        stride_w=1,
        out_col=units,
    )


def forward_workspace(attrs: Attrs, s: Specs) -> Specs:
    """Returns the workspace for packed weights, used if rows are many for their depth."""
    units, depth = s["w"].shape
    packs = has_many_rows(s) and units >= VECTOR
    return panel_workspace(depth, units) if packs else {}


def has_many_rows(s: Specs) -> bool:
    """Whether rows are so many that it pays to pack weights."""
    depth = s["w"].shape[1]
    return bool(s["x"].size // depth >= max(LEAST_ROWS, depth / DEPTH_PER_ROW))


def packed(attrs: Attrs, s: Specs) -> TensorSpec | None:
    units, depth = s["w"].shape
    return packed_weights(depth, units) if has_many_rows(s) else None


def forward(
    attrs: Attrs,
    *,
    x: Array,
    w: Array,
    y: Array,
    b: Array | None = None,
    panel: Array | None = None,
    clamp: Clamp | None = None,
    rounded: Array | None = None,
    packing: str = "",
    addend: Array | None = None,
) -> Callable[[], None]:
    units, depth = w.shape
    rows = x.size // depth
    if panel is not None:
        windows = walk(rows, depth, units, depth_stride=1, unit_stride=depth)
        return correlate(
            x,
            w,
            y,
            panel,
            windows,
            b=b,
            clamp=clamp,
            rounded=rounded,
            packing=packing,
            addend=addend,
        )
    clamped, (lo, hi) = int(clamp is not None), clamp or (0.0, 0.0)
    return bind("dense", x, w, b, y, rows, depth, units, clamped, float(lo), float(hi))


def forward_adds(attrs: Attrs, s: Specs) -> bool:
    """Whether the forward call packs weights, and vectors of units do not overlap."""
    return has_many_rows(s) and s["w"].shape[0] % VECTOR == 0


def back_adds(attrs: Attrs, s: Specs) -> bool:
    """Whether vectors of the depth do not overlap."""
    return s["w"].shape[1] % VECTOR == 0


def back_workspace(attrs: Attrs, s: Specs) -> Specs:
    units, depth = s["w"].shape
    return panel_workspace(units, depth) if depth < VECTOR else {}


def grad_x(
    attrs: Attrs,
    *,
    dy: Array,
    w: Array,
    dx: Array,
    panel: Array | None = None,
    relu_mask: ReluMask | None = None,
    rounded: Array | None = None,
    addend: Array | None = None,
) -> Callable[[], None]:
    units, depth = w.shape
    back = walk(dy.size // units, units, depth, depth_stride=depth, unit_stride=1)
    return correlate(dy, w, dx, panel, back, relu_mask=relu_mask, rounded=rounded, addend=addend)


def filter_workspace(attrs: Attrs, s: Specs) -> Specs:
    units, depth = s["w"].shape
    return sums_workspace(units, 1, depth)


def grad_w(
    attrs: Attrs,
    *,
    dy: Array,
    x: Array,
    dw: Array,
    scratch: Array | None = None,
    db: Array | None = None,
    first: int = 0,
    adds: Array | None = None,
    rounded: Array | None = None,
) -> Callable[[], None]:
    depth = dw.shape[1]
    windows = walk(x.size // depth, depth, dy.shape[-1], depth_stride=1, unit_stride=depth)
    return filter_sums(dy, x, dw, db, scratch, windows, first, adds, rounded)


def rounds(attrs: Attrs, s: Specs) -> bool:
    """Whether rounding the factors of a product takes less time than it saves.

    With few rows, a product takes as long as reading its weights.
    """
    depth = s["w"].shape[1]
    rows = s["x"].size // max(depth, 1)
    return is_float32(s) and has_many_rows(s) and pays(rows, *s["w"].shape)


def rounded_forward(attrs: Attrs, s: Specs) -> Specs:
    units, depth = s["w"].shape
    return {**panel_workspace(pairs(depth), units), **rounded_workspace()}


def rounded_packed(attrs: Attrs, s: Specs) -> TensorSpec | None:
    units, depth = s["w"].shape
    return packed_weights(pairs(depth), units)


def rounded_back(attrs: Attrs, s: Specs) -> Specs:
    units, depth = s["w"].shape
    return {**panel_workspace(pairs(units), depth), **rounded_workspace()}


def rounded_filter(attrs: Attrs, s: Specs) -> Specs:
    return rounded_workspace()


FORWARD = with_bf16(
    Compiled(
        forward,
        fits,
        forward_workspace,
        takes=frozenset({"clamp"}),
        packed=packed,
        takes_addend=forward_adds,
    ),
    rounds,
    rounded_forward,
    rounded_packed,
)
GRAD_X = with_bf16(
    Compiled(grad_x, fits, back_workspace, takes=frozenset({"relu_mask"}), takes_addend=back_adds),
    rounds,
    rounded_back,
)
GRAD_W = with_bf16(
    Compiled(
        grad_w,
        fits,
        filter_workspace,
        takes=frozenset({"bias_gradient"}),
        in_blocks=True,
        in_sums=True,
    ),
    rounds,
    rounded_filter,
)
