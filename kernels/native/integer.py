"""Compiled products of quantized tensors: the bits of the NumPy kernels; see src/integer.c."""

from collections.abc import Callable
from typing import Any

import numpy as np

from odt.kernels.geometry.conv_geometry import Axes, part_of
from odt.kernels.geometry.fixed_point import HI, LO, ONE_BITS
from odt.kernels.geometry.im2col import PaddedImages
from odt.kernels.geometry.quantize import sign_bit
from odt.kernels.native.binding import bind, in_order
from odt.kernels.native.copies import copy
from odt.kernels.native.float32 import FLOAT
from odt.kernels.native.library import limit
from odt.kernels.native.structs import IntegerLstmShape, WindowWalk
from odt.kernels.native.window_walk import reading, results, taps, window_walk
from odt.kernels.rows.opdef import Array, Attrs, Specs, TensorSpec

BYTES = (np.dtype(np.int8), np.dtype(np.uint8))
WORD = np.dtype(np.int32)


def fits(attrs: Attrs, s: Specs) -> bool:
    x, w = s["x"], s["w"]
    depth = w.shape[1] * w.shape[3]  # of a panel
    are_bytes = x.dtype in BYTES and s["y"].dtype in BYTES and w.dtype == np.int8
    return are_bytes and depth <= limit("TILE_BYTES") and s["y"].size < 2**31


def depthwise_fits(attrs: Attrs, s: Specs) -> bool:
    _, height, width, units = s["w"].shape
    has_few_taps = height * width <= limit("MAX_TAPS")
    return fits(attrs, s) and has_few_taps and units == s["x"].shape[3]


def walk(x: Array, y: Array, axes: Axes, summands: int = 1) -> WindowWalk:
    """Returns the windows of x, with strides in bytes; filters of several summands repeat taps."""
    rows, cols = (taps(a, 0) for a in axes)
    return window_walk(rows, cols * summands, **reading(x), **results(y, axes))


def _numbers(x: Array, zero: int, to: Any) -> tuple[int, ...]:
    flip = sign_bit(x.dtype)
    return zero, flip, to.zero, to.lo, to.hi


def _products(
    x: Array,
    w: Array,
    start: Array,
    m: Array,
    zeros: Array,
    y: Array,
    axes: Axes,
    numbers: tuple[int, ...],
) -> Callable[[], None]:
    arrays, windows = (x, w, start, m, y), walk(x, y, axes)
    return bind("integer_products", *arrays, windows, *numbers, zeros if zeros.size else None)


def group_fits(attrs: Attrs, s: Specs, groups: int) -> bool:
    """Whether it supports convolutions of groups: their channels are copied in words."""
    x, y = s["x"], s["y"]
    step = groups * WORD.itemsize
    return (
        fits(attrs, s) and x.size > 0 and y.size > 0 and x.shape[3] % step == y.shape[3] % step == 0
    )


def convolution(
    attrs: Attrs,
    *,
    x: Array,
    w: Array,
    b: Array,
    m: Array,
    start: Array,
    zeros: Array,
    y: Array,
    axes: Axes,
    source: PaddedImages,
    groups: int,
    group_x: Array | None = None,
    group_y: Array | None = None,
) -> Callable[[], None]:
    numbers = _numbers(x, attrs.zero, attrs.to)
    if group_x is None or group_y is None:
        return _products(x, w, start, m, zeros, y, axes, numbers)
    calls = list[Callable[[], None]]()
    for k in range(groups):
        images, results = (part_of(n, a.view(WORD), k, groups) for n, a in (("x", x), ("y", y)))
        panel, begin, factors, of_zeros = (part_of("w", a, k, groups) for a in (w, start, m, zeros))
        calls += [
            copy(images, group_x.view(WORD)),
            _products(group_x, panel, begin, factors, of_zeros, group_y, axes, numbers),
            copy(group_y.view(WORD), results),
        ]
    return in_order(calls)


def depthwise(
    attrs: Attrs,
    *,
    x: Array,
    w: Array,
    b: Array,
    m: Array,
    start: Array,
    y: Array,
    axes: Axes,
    source: PaddedImages,
) -> Callable[[], None]:
    windows = walk(x, y, axes, w.shape[2] // axes[1].kernel)
    return bind("integer_depthwise", x, w, start, m, y, windows, *_numbers(x, attrs.zero, attrs.to))


def dense(
    attrs: Attrs,
    *,
    x: Array,
    w: Array,
    b: Array,
    m: Array,
    start: Array,
    zeros: Array,
    y: Array,
    axes: Axes,
    source: PaddedImages,
) -> Callable[[], None]:
    pixels = x.reshape(-1, 1, 1, source.channels, copy=False)
    outputs = y.reshape(-1, 1, 1, len(b), copy=False)
    return _products(pixels, w, start, m, zeros, outputs, axes, _numbers(x, 0, attrs.to))


MAX_SUM = 2**31 - 1


def _fills_a_vector(s: Specs) -> bool:
    return s["y"].size >= limit("MAX_LANES")


def sum_fits(attrs: Attrs, s: Specs) -> bool:
    """Whether all sums fit into 32 bits, and nothing is broadcast."""
    most = 255 * sum(map(abs, attrs.factors)) + (1 << (attrs.shift - 1))
    same = s["a"] == s["b"] and s["a"].shape == s["y"].shape
    return (
        same and _fills_a_vector(s) and {s["a"].dtype, s["y"].dtype} <= {*BYTES} and most <= MAX_SUM
    )


def sums(attrs: Attrs, *, a: Array, b: Array, y: Array) -> Callable[[], None]:
    flip = sign_bit(a.dtype)
    start = 1 << (attrs.shift - 1)
    for zero, factor in zip(attrs.zeros, attrs.factors, strict=True):
        start -= (zero + flip) * factor
    to, factors = attrs.to, (n % 2**32 for n in (start, *attrs.factors))
    return bind("integer_sum", a, b, y, y.size, flip, *factors, attrs.shift, to.zero, to.lo, to.hi)


def quantize_fits(attrs: Attrs, s: Specs) -> bool:
    return s["x"].dtype == np.float32 and s["y"].dtype in BYTES and _fills_a_vector(s)


def quantize(attrs: Attrs, *, x: Array, y: Array) -> Callable[[], None]:
    to, factor = attrs.to, np.float32(1) / np.float32(attrs.scale)
    return bind("integer_quantize", x, y, y.size, float(factor), to.zero, to.lo, to.hi)


def dequantize_fits(attrs: Attrs, s: Specs) -> bool:
    return s["x"].dtype in BYTES and _fills_a_vector(s)


def dequantize(attrs: Attrs, *, x: Array, y: Array) -> Callable[[], None]:
    flip = sign_bit(x.dtype)
    return bind("integer_dequantize", x, y, y.size, attrs.scale, flip, attrs.zero)


def average_pool_fits(attrs: Any, s: Specs) -> bool:
    x = s["x"]
    are_bytes = x.dtype in BYTES and s["y"].dtype == x.dtype and s["y"].size > 0
    return are_bytes and attrs.pool.window[0] * attrs.pool.window[1] < 2**23  # of int32 sums


def average_pool(attrs: Any, *, x: Array, y: Array, axes: Axes) -> Callable[[], None]:
    flip = sign_bit(x.dtype)
    return bind("integer_average_pool", x, y, walk(x, y, axes), flip, attrs.to.lo, attrs.to.hi)


def resize_fits(attrs: Attrs, s: Specs) -> bool:
    return s["x"].dtype in BYTES and s["y"].size > 0


def resize(attrs: Attrs, *, x: Array, y: Array, rows: Array, cols: Array) -> Callable[[], None]:
    flip = sign_bit(x.dtype)
    return bind("integer_resize", x, y, rows, cols, *x.shape, *y.shape[1:3], flip)


def lstm_fits(attrs: Attrs, s: Specs) -> bool:
    """Whether all products are exact in float32."""
    exact = all(s[n].dtype == FLOAT for n in ("w", "r", "wp"))
    return exact and s["x"].dtype == s["y"].dtype == np.int8 and s["y"].size > 0


def lstm_workspace(attrs: Attrs, s: Specs) -> Specs:
    samples, (wide, depth) = s["x"].shape[1 - attrs.time_axis], s["w"].shape
    out, units = s["r"].shape[1], s["wp"].shape[1]
    width = 2 * wide + max(depth, out, units)
    return {
        "scratch": TensorSpec((samples, width), FLOAT),
        "cells": TensorSpec((samples, units), np.dtype(np.int64)),
    }


def lstm(
    attrs: Attrs,
    *,
    x: Array,
    w: Array,
    r: Array,
    b: Array,
    br: Array,
    m: Array,
    mr: Array,
    p: Array,
    wp: Array,
    bp: Array,
    y: Array,
    tables: Array,
    scratch: Array,
    cells: Array,
) -> Callable[[], None]:
    (wide, depth), out, units = w.shape, r.shape[1], wp.shape[1]
    samples, steps = x.shape[1 - attrs.time_axis], x.shape[attrs.time_axis]
    sample_stride, step_stride = (steps, 1) if attrs.time_axis else (1, samples)
    hidden, to = attrs.hidden, attrs.to
    shape = IntegerLstmShape(
        samples=samples,
        steps=steps,
        depth=depth,
        units=units,
        out=out,
        gates=wide // units,
        sample_stride=sample_stride,
        step_stride=step_stride,
        cell_lo=LO if attrs.clip == HI else -attrs.clip,  # HI: cells are not clipped
        cell_hi=attrs.clip,
        bits=2 * ONE_BITS + attrs.exponent,
        m=attrs.m,
        hidden_zero=hidden.zero,
        hidden_lo=hidden.lo,
        hidden_hi=hidden.hi,
        zero=to.zero,
        lo=to.lo,
        hi=to.hi,
    )
    peepholes, projection = (a if a.size else None for a in (p, wp))
    constants = (x, w, r, b, br, m, mr, peepholes, projection, bp, tables)
    return bind("integer_lstm", *constants, y, scratch, cells, shape)
