"""Products of windows of quantized images with filters, exact because floats can hold the sums."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.convolution import window_scratch
from odt.kernels.families.requantize import (
    GROUP,
    Rounding,
    exact_float,
    largest,
    quantized,
    real_type,
    round_sums,
    rounding,
    sum_type,
)
from odt.kernels.geometry import conv_geometry
from odt.kernels.geometry.conv_geometry import Axes, ConvAttrs, conv_attrs, number_of_groups
from odt.kernels.geometry.im2col import PaddedImages, tiles, tiling
from odt.kernels.rows.opdef import Array, Options, Specs, TensorSpec

PRODUCTS = ("x", "w", "b", "m", "start")  # inputs of the integer rows of products
PANEL_PRODUCTS = (*PRODUCTS, "zeros")  # of those whose weights are a panel
MAX_DIFFERENCE = 255  # between bytes and their zero point


@dataclass(frozen=True, slots=True)
class IntegerConvAttrs:
    """Windows, shape of the filters in the file, zero point of x, and rounding of the sums."""

    windows: ConvAttrs
    filters: tuple[int, ...]
    zero: int
    to: Rounding


def integer_conv_attrs(options: Options, statics: Mapping[str, Array]) -> IntegerConvAttrs:
    tensors = quantized(options)
    w = tensors["w"].data
    assert w is not None, "weights of integer rows are constants"
    windows = conv_attrs(options, statics)
    windows = replace(windows, zeros=options.get("zeros", windows.zeros))
    return IntegerConvAttrs(windows, w.shape, tensors["x"].zero, rounding(options))


def geometry(attrs: IntegerConvAttrs, s: Specs) -> Mapping[str, Any]:
    """Prepares both axes, and the padded images of x."""
    w = TensorSpec(attrs.filters, s["w"].dtype)
    return conv_geometry.geometry(attrs.windows, {"x": s["x"], "w": w})


def check_constants(s: Specs, units: int, panels: int = 1) -> None:
    """Raises ShapeError unless b and m have a value for each unit, m rounded up in each panel."""
    for name, count in (("b", units), ("m", panels * -(-units // panels // GROUP) * GROUP)):
        if s[name].shape != (count,):
            raise ShapeError(f"{name} must be ({count},), but got {s[name]}")


def infer(attrs: IntegerConvAttrs, s: Specs) -> Specs:
    x, w = s["x"], TensorSpec(attrs.filters, s["w"].dtype)
    groups = number_of_groups(x, w)
    if not len(x.shape) == len(w.shape) == 4 or x.shape[3] != groups * w.shape[3] or not w.size:
        raise ShapeError(
            "x must be (N, H, W, C) and w (O, KH, KW, C) with one C, w not empty, "
            f"but got x {x}, w {w}"
        )
    check_constants(s, w.shape[0], groups)
    h, v = attrs.windows.axes(x, w)
    return {"y": TensorSpec((x.shape[0], h.out, v.out, w.shape[0]), attrs.to.dtype)}


def product_type(x: TensorSpec, w: int, depth: int) -> np.dtype[Any]:
    """Returns the float type in which sums of `depth` products with weights up to w are exact."""
    return exact_float(depth * largest(x.dtype) * w)


def product_scratch(axes: Axes, source: PaddedImages, s: Specs) -> Specs:
    """Returns the workspace of `round_products`."""
    x, w, (units,) = s["x"], s["w"], s["b"].shape
    h, v = (a.reading for a in axes)
    groups, quads, group, quad = w.shape
    has_zeros = s["zeros"].size > 0
    floats = product_type(x, MAX_DIFFERENCE if has_zeros else largest(w.dtype), quads * quad)
    tile = tiling(source, h, v, floats.itemsize)
    rows = tile.images * min(tile.rows, h.count) * v.count
    return {
        **window_scratch(axes, source, floats),
        "filters": TensorSpec((quads, quad, groups, group), floats),
        "products": TensorSpec((rows, units), floats),
        "sums": TensorSpec((rows, units), sum_type(x.dtype)),
        "real": TensorSpec((rows, units), real_type(s["x"].dtype)),
    }


def round_products(
    x: Array,
    w: Array,
    b: Array,
    m: Array,
    zeros: Array,
    y: Array,
    *,
    zero: int,
    to: Rounding,
    axes: Axes,
    source: PaddedImages,
    columns: Array,
    filters: Array,
    products: Array,
    sums: Array,
    real: Array,
    padded: Array | None = None,
) -> None:
    """Computes y = rint((windows of x times w + b) m), rounded as `to` says.

    Args:
        x: (N, H, W, C), with `zero` around it.
        w: (O / GROUP, KH KW C / QUAD, GROUP, QUAD).
        b: (O,).
        m, zeros: (O,), rounded up to GROUP values; zeros may have no value.
        y: (N, OH, OW, O).
        axes, source: as returned by `geometry`.
        columns, filters, products, sums, real, padded: workspace of `product_scratch`.
    """
    units = len(b)
    h, v = (a.reading for a in axes)
    np.copyto(filters, w.transpose(1, 3, 0, 2))
    if zeros.size:
        np.subtract(filters, zeros.reshape(filters.shape[2:]), out=filters)
    flat = filters.reshape(filters.shape[0] * filters.shape[1], -1, copy=False)[:, :units]
    for images, rows, tile in tiles(x, source, h, v, padded, columns, zero):
        out = y[images, rows].reshape(-1, units, copy=False)
        floats, integers, reals = (a[: len(out)] for a in (products, sums, real))
        np.matmul(tile, flat[: tile.shape[1]], out=floats)
        np.copyto(integers, floats, casting="unsafe")
        np.add(integers, b, out=integers)
        round_sums(integers, m[:units], to, reals, out)
