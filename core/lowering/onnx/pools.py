"""Pools of images, sequences and volumes, with channels last."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from odt.core.lowering.onnx.arithmetic import number, scaled
from odt.core.lowering.onnx.builder import Use
from odt.core.lowering.onnx.windows import (
    VALID,
    Window,
    check_outputs,
    first,
    images,
    last,
    padded,
    window,
)
from odt.errors import ShapeError
from odt.kernels.rows.opdef import Array

MAX, AVERAGE = "MAX_POOL_2D", "AVERAGE_POOL_2D"
LOWEST = float(np.finfo(np.float32).min)
MAX_PLACES = 1024  # in a dilated window


def pool(op: str, u: Use) -> int:
    shape = images(u)
    windows = window(u, shape[2:], ())
    is_max = op == MAX
    y = _windows_of(u, op, last(u, u.input(0)), windows, LOWEST if is_max else 0)
    if not is_max:
        factors = _factors(u, windows, shape[2:])
        if (factors != 1).any():
            dims = (1, *[1] * (len(shape) == 3), *factors.shape, 1)
            y = u.b.add("MUL", (y, u.b.constant(factors.reshape(dims), u.dtype(0))))
    return first(u, y, len(shape))


def lp_pool(u: Use) -> int:
    """(Σ |x|ᵖ)^(1/p) over each window."""
    shape, p = images(u), float(int(u.attr("p", 2)))
    windows = window(u, shape[2:], ())
    y = _windows_of(u, AVERAGE, last(u, power(u, u.input(0), p)), windows, 0)
    return first(u, root(u, scaled(u, y, math.prod(windows.kernel)), p), len(shape))


def global_lp_pool(u: Use) -> int:
    p = float(int(u.attr("p", 2)))
    axes = u.b.constant([*range(2, len(images(u)))])
    return root(u, u.b.add("SUM", (power(u, u.input(0), p), axes), keep_dims=True), p)


def power(u: Use, x: int, p: float) -> int:
    """Returns |x|ᵖ."""
    if p == 2:
        return u.b.add("SQUARE", (x,))
    x = u.b.add("ABS", (x,))
    return x if p == 1 else u.b.add("POW", (x, number(u, x, p)))


def root(u: Use, x: int, p: float) -> int:
    if p < 1:
        raise ShapeError(f"p must be 1 or more, but got {p:.0f}")
    if p == 2:
        return u.b.add("SQRT", (x,))
    return x if p == 1 else u.b.add("POW", (x, number(u, x, 1 / p)))


def _windows_of(u: Use, op: str, x: int, windows: Window, fill: float) -> int:
    """Returns the maximum or the average of each window; `fill` stands around the images."""
    check_outputs(windows, u.shape(0)[2:])
    if u.attr("auto_pad", "NOTSET").startswith("SAME"):
        _check_same(windows, u.shape(0)[2:])
    x = padded(u, x, windows, fill)
    if set(windows.dilation) != {1}:
        return _dilated(u, op, x, windows)
    return _plain(u, op, x, windows)


def _plain(u: Use, op: str, x: int, windows: Window) -> int:
    """Adds a pool of padded images, whose windows have no gaps."""
    if len(windows.kernel) == 3:
        return _volume_pool(u, op, x, windows)
    kernel, stride = ((1, *n)[-2:] for n in (windows.kernel, windows.stride))
    return _pooled(u, op, x, kernel, stride)


def _check_same(windows: Window, sizes: Sequence[int]) -> None:
    """Checks that auto_pad has one meaning: runtimes differ for dilations and for large strides."""
    rows = zip(sizes, windows.kernel, windows.stride, strict=True)
    if set(windows.dilation) != {1} or any((n - 1) // s * s + k < n for n, k, s in rows):
        raise ShapeError(
            "auto_pad SAME must have dilations 1 and windows that reach each end, but got "
            f"dilations {windows.dilation}, kernel {windows.kernel}, strides {windows.stride}"
        )


def _dilated(u: Use, op: str, x: int, windows: Window) -> int:
    """Combines slices of padded images, one for each place in a window.

    Where strides are multiples of dilations, no value between those of a window is read.
    """
    if not any(s % d for s, d in zip(windows.stride, windows.dilation, strict=True)):
        return _thinned(u, op, x, windows)
    count = math.prod(windows.kernel)
    if count > MAX_PLACES:
        raise ShapeError(f"a window must have at most {MAX_PLACES} values, but got {count}")
    n, *sizes, c = u.b.shape(x)
    flat = [1] * (len(sizes) - len(windows.kernel))
    steps = [*flat, *windows.stride]
    axes = [*zip(sizes, [*flat, *windows.extent], steps, strict=True)]
    lengths = [(m - e) // s * s + 1 for m, e, s in axes]
    parts = []
    for place in np.ndindex(*windows.kernel):
        begin = [*[0] * len(flat), *(k * d for k, d in zip(place, windows.dilation, strict=True))]
        end = [b + m for b, m in zip(begin, lengths, strict=True)]
        parts.append(u.b.slice(x, (0, *begin, 0), (n, *end, c), (1, *steps, 1)))
    y = parts[0]
    for part in parts[1:]:
        y = u.b.add("MAXIMUM" if op == MAX else "ADD", (y, part))
    return y if op == MAX else scaled(u, y, 1 / count)


def _pooled(u: Use, op: str, x: int, kernel: Sequence[int], stride: Sequence[int]) -> int:
    """Adds a pool of images (N, H, W, C)."""
    return u.b.add(
        op,
        (x,),
        padding=VALID,
        stride_h=stride[0],
        stride_w=stride[1],
        filter_height=kernel[0],
        filter_width=kernel[1],
    )


def _thinned(u: Use, op: str, x: int, windows: Window) -> int:
    """Pools every second or third … value, whose windows have no gaps."""
    shape, axes = u.b.shape(x), len(windows.kernel)
    gaps = (*[1] * (len(shape) - 1 - axes), *windows.dilation, 1)
    x = u.b.slice(x, [0] * len(shape), shape, gaps)
    stride = tuple(s // d for s, d in zip(windows.stride, windows.dilation, strict=True))
    none = ((0, 0),) * axes
    return _plain(u, op, x, Window(windows.kernel, stride, (1,) * axes, none, none))


def _volume_pool(u: Use, op: str, x: int, windows: Window) -> int:
    """Pools height and width of each slice of padded volumes, and then their depth."""
    n, d, h, w, c = u.b.shape(x)
    y = _pooled(u, op, u.b.reshape(x, (n * d, h, w, c)), windows.kernel[1:], windows.stride[1:])
    oh, ow = u.b.shape(y)[1:3]
    y = u.b.reshape(y, (n, d, oh * ow, c))
    y = _pooled(u, op, y, (windows.kernel[0], 1), (windows.stride[0], 1))
    return u.b.reshape(y, (n, u.b.shape(y)[1], oh, ow, c))


def _factors(u: Use, windows: Window, sizes: Sequence[int]) -> Array:
    """Returns values in a window / those that count, for each window of an average."""
    include = bool(u.attr("count_include_pad", 0))
    factors: Array = np.ones(())
    axes = zip(sizes, windows.kernel, windows.stride, windows.dilation, strict=True)
    pads = zip(windows.pads, windows.counted, windows.outputs(sizes), strict=True)
    for (n, kernel, stride, dilation), ((lo, _), (_, hi), count) in zip(axes, pads, strict=True):
        places = np.arange(count)[:, None] * stride - lo + np.arange(kernel) * dilation
        least, most = (-lo, n + hi) if include else (0, n)
        cells = ((places >= least) & (places < most)).sum(1)
        factors = np.multiply.outer(factors, kernel / np.maximum(cells, 1))
    return factors


def global_pool(op: str, u: Use) -> int:
    axes = u.b.constant([*range(2, len(images(u)))])
    return u.b.add(op, (u.input(0), axes), keep_dims=True)


KINDS: Mapping[str, Callable[[Use], int | Sequence[int]]] = {
    "MaxPool": partial(pool, MAX),
    "AveragePool": partial(pool, AVERAGE),
    "LpPool": lp_pool,
    "GlobalAveragePool": partial(global_pool, "MEAN"),
    "GlobalLpPool": global_lp_pool,
    "GlobalMaxPool": partial(global_pool, "REDUCE_MAX"),
}
