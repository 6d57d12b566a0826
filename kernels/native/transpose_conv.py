"""Compiled kernels of TRANSPOSE_CONV: those of a convolution, with output and depth exchanged.

If windows of y do not overlap and channels of y do not fill a vector, y is a product of the filters
and the pixels of x, with vectors along the pixels.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from odt.kernels.geometry.conv_geometry import Axes, ConvAttrs, Pairs
from odt.kernels.geometry.im2col import PaddedImages
from odt.kernels.native import convolution, dense
from odt.kernels.native.binding import Run, bind, in_order
from odt.kernels.native.convolution import (
    back_workspace,
    correlate,
    fits,
    panel_workspace,
    sums_workspace,
)
from odt.kernels.native.copies import copy
from odt.kernels.native.elementwise import call
from odt.kernels.native.float32 import FLOAT, VECTOR
from odt.kernels.native.window_walk import forward_walk, phase_walks
from odt.kernels.rows.opdef import Array, Attrs, Clamp, Compiled, Specs, TensorSpec

AT_ONCE = 8192  # pixels of x in a product: its operands stay in the cache


def is_product(attrs: ConvAttrs, s: Specs) -> bool:
    """Whether y is computed as a product."""
    units, *window, _ = s["w"].shape
    disjoint = tuple(window) == attrs.stride and attrs.dilation == (1, 1)
    covered = [n * k for n, k in zip(s["x"].shape[1:3], window, strict=True)]
    return disjoint and [*s["y"].shape[1:3]] == covered and units < VECTOR


def forward_workspace(attrs: ConvAttrs, s: Specs) -> Specs:
    if not is_product(attrs, s):
        return convolution.forward_workspace(attrs, s)
    images, height, width, depth = s["x"].shape
    pixels = min(images * height, max(AT_ONCE // width, 1)) * width
    product = TensorSpec((s["w"].size // depth * pixels,), FLOAT)
    return {"product": product, **panel_workspace(depth, pixels)}


def forward(
    attrs: ConvAttrs,
    *,
    x: Array,
    w: Array,
    y: Array,
    axes: Axes,
    source: PaddedImages,
    pairs: Pairs,
    panel: Array | None = None,
    product: Array | None = None,
    **kwargs: Any,
) -> Callable[[], None]:
    if product is not None:
        return in_order(_products(x, w, y, panel, product, **kwargs))
    walks = phase_walks(x, w, y, axes, source, pairs, transposed=True)
    return in_order([correlate(x, w, y, panel, walk, **kwargs) for walk in walks])


def _products(
    x: Array,
    w: Array,
    y: Array,
    panel: Array | None,
    product: Array,
    b: Array | None = None,
    clamp: Clamp | None = None,
) -> Iterator[Run]:
    """Yields the calls that compute the results, one block of rows of x after the other."""
    units, height, width, depth = w.shape
    cols = x.shape[2]
    filters, x_rows = w.reshape(-1, depth, copy=False), x.reshape(-1, cols, depth, copy=False)
    y_rows = y.reshape(-1, height, cols, width, units, copy=False)
    step = product.size // (len(filters) * cols)
    for at in range(0, len(x_rows), step):
        read, block = x_rows[at : at + step], y_rows[at : at + step]
        pixels = read.reshape(-1, depth, copy=False)
        results = product[: len(filters) * len(pixels)].reshape(len(filters), -1, copy=False)
        yield dense.forward(None, x=filters, w=pixels, y=results, panel=panel)
        by_tap = results.reshape(units, height, width, len(read), cols, copy=False)
        yield copy(by_tap, block.transpose(4, 1, 3, 0, 2))
        values = block.reshape(-1, units, copy=False)
        if b is not None:
            yield call("add", values, (values, b), *(clamp or (-np.inf, np.inf)))
        elif clamp is not None:
            yield call("clamp", values, (values,), *clamp)


def grad_x(
    attrs: Attrs,
    *,
    dy: Array,
    w: Array,
    dx: Array,
    axes: Axes,
    source: PaddedImages,
    panel: Array | None = None,
    **kwargs: Any,
) -> Callable[[], None]:
    walk = forward_walk(dy, w, dx, axes, transposed=True)
    return correlate(dy, w, dx, panel, walk, **kwargs)


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
            bind("filter_sums", x, dy, filters, None, scratch, walk, None),
            copy(filters.transpose(3, 1, 2, 0), dw),
        ]
    )


Prepare = Callable[[Attrs, Specs], Mapping[str, Any]]


def compiled_kernels(spreading: Prepare, gathering: Prepare) -> tuple[Compiled, Compiled, Compiled]:
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
