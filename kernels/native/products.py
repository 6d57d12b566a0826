"""Convolutions, depthwise convolutions and fully connected layers in compiled code."""

from collections.abc import Callable, Sequence

import numpy as np

from odt.kernels.columns import Source
from odt.kernels.native import Walk, bind
from odt.kernels.opdef import Array, Specs, TensorSpec
from odt.kernels.window import Axis, Phase

FLOAT = np.dtype(np.float32)
PIXELS, TAPS, DEPTH = 128, 64, 8192  # as in walk.h, as is GATHERING
GATHERING = 4  # cores that share a gradient whose windows are gathered
WIDEST = 16  # floats of the widest vector

Gate = tuple[Array, float, float]
Clamp = tuple[float, float]


def images(a: Array) -> tuple[int, int, int, int]:
    """(N, H, W, C)."""
    n, h, w, c = a.shape
    return n, h, w, c


def reading(a: Array) -> dict[str, int]:
    """A walk's sizes that say where its images are."""
    n, h, w, c = images(a)
    return {
        "images": n,
        "depth": c,
        "image_stride": h * w * c,
        "row_stride": w * c,
        "col_stride": c,
        "height": h,
        "width": w,
    }


def weights(w: Array, *, forward: bool) -> dict[str, int]:
    """How the filters (O, KH, KW, C) are read: along C forward, along O backward."""
    whole = w.size // w.shape[0]
    depth, unit = (1, whole) if forward else (whole, 1)
    return {"depth_stride": depth, "unit_stride": unit}


def taps(a: Axis, weight: int) -> list[tuple[int, int]]:
    return [(k * a.dilation, k * weight) for k in range(a.kernel)]


def results(y: Array, axes: tuple[Axis, Axis]) -> dict[str, int]:
    """A walk's sizes that say where forward windows begin and what they give lies."""
    h, v = axes
    _, rows, cols, units = images(y)
    return {
        "rows": rows,
        "cols": cols,
        "units": units,
        "start_h": -h.lo,
        "step_h": h.stride,
        "start_w": -v.lo,
        "step_w": v.stride,
        "out_image": rows * cols * units,
        "out_row": cols * units,
        "out_col": units,
    }


def forward_walk(x: Array, w: Array, y: Array, axes: tuple[Axis, Axis]) -> Walk:
    """Windows of x that give y."""
    row_taps, col_taps = taps(axes[0], w.shape[2] * w.shape[3]), taps(axes[1], w.shape[3])
    return Walk(row_taps, col_taps, **reading(x), **weights(w, forward=True), **results(y, axes))


def phase_taps(p: Phase, weight: int) -> list[tuple[int, int]]:
    return [(t * p.reading.dilation, k * weight) for t, k in enumerate(p.taps)]


def backward_walk(
    dy: Array,
    w: Array,
    dx: Array,
    strides: tuple[int, int],
    border: tuple[int, int],
    pair: tuple[Phase, Phase],
) -> Walk:
    """Windows of dy that give one phase of dx.

    Args:
        border: zeros before dy, in the coordinates of the phase's reading.
    """
    a, b = pair
    _, height, width, units = images(dx)
    return Walk(
        phase_taps(a, w.shape[2] * w.shape[3]),
        phase_taps(b, w.shape[3]),
        **reading(dy),
        **weights(w, forward=False),
        rows=a.reading.count,
        cols=b.reading.count,
        units=units,
        start_h=a.reading.start - border[0],
        step_h=1,
        start_w=b.reading.start - border[1],
        step_w=1,
        out_start=(a.first * width + b.first) * units,
        out_image=height * width * units,
        out_row=strides[0] * width * units,
        out_col=strides[1] * units,
    )


def in_order(calls: Sequence[Callable[[], None]]) -> Callable[[], None]:
    if len(calls) == 1:
        return calls[0]

    def run() -> None:
        for call in calls:
            call()

    return run


def is_float32(s: Specs) -> bool:
    return all(v.dtype == FLOAT and v.size for n, v in s.items() if n.lstrip("d") in "xwby")


def fits(s: Specs, depth: int, taps: int) -> bool:
    return is_float32(s) and depth <= DEPTH and taps <= TAPS


def panel(depth: int, units: int) -> Specs:
    """Room for repacked weights, whatever the instruction set."""
    return {"panel": TensorSpec((depth * -(-units // WIDEST) * WIDEST,), FLOAT)}


def sums(units: int, taps: int, depth: int) -> Specs:
    """Room in which the gradient of filters is summed, whatever the instruction set."""
    gathered = GATHERING * PIXELS * (taps * depth + WIDEST) if depth < WIDEST else 0
    in_place = depth % WIDEST == 0 and depth >= WIDEST
    summed = 0 if in_place else units * taps * (depth + WIDEST)
    return {"room": TensorSpec((gathered + summed,), FLOAT)}


def correlate(
    x: Array,
    w: Array,
    y: Array,
    panel: Array | None,
    walk: Walk,
    b: Array | None = None,
    clamp: Clamp | None = None,
    gate: Gate | None = None,
) -> Callable[[], None]:
    """y = windows of x times w, plus b, as product.c says."""
    opened, lo, hi = gate or (None, *(clamp or (0.0, 0.0)))
    return bind(
        "correlate", x, w, b, opened, y, panel, walk, int(clamp is not None), float(lo), float(hi)
    )


def depthwise(
    x: Array,
    w: Array,
    y: Array,
    walk: Walk,
    b: Array | None = None,
    clamp: Clamp | None = None,
    gate: Gate | None = None,
) -> Callable[[], None]:
    """Each channel's windows of x times its own taps, plus b, as depthwise.c says."""
    opened, lo, hi = gate or (None, *(clamp or (0.0, 0.0)))
    return bind("depthwise", x, w, b, opened, y, walk, int(clamp is not None), float(lo), float(hi))


def phase_walks(
    dy: Array,
    w: Array,
    dx: Array,
    axes: tuple[Axis, Axis],
    source: Source,
    pairs: Sequence[tuple[Phase, Phase]],
) -> list[Walk]:
    """For each phase of dx, the windows of dy that give it."""
    strides, border = (axes[0].stride, axes[1].stride), (source.h[0], source.w[0])
    return [backward_walk(dy, w, dx, strides, border, pair) for pair in pairs]
