"""Products of windows of quantized images with filters, exact by floats that hold the sums."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.convolution import window_scratch
from odt.kernels.families.requantize import (
    Rounding,
    exact_float,
    largest,
    quantized,
    round_sums,
    rounding,
    sum_type,
)
from odt.kernels.geometry.conv_geometry import Axes, ConvAttrs, conv_attrs
from odt.kernels.geometry.im2col import PaddedImages, tiles, tiling
from odt.kernels.opdef import Array, Options, Specs, TensorSpec


@dataclass(frozen=True, slots=True)
class IntegerConvAttrs:
    """Windows, the zero point of x, and the rounding of the sums."""

    windows: ConvAttrs
    zero: int
    to: Rounding


def integer_conv_attrs(options: Options, statics: Mapping[str, Array]) -> IntegerConvAttrs:
    return IntegerConvAttrs(
        conv_attrs(options, statics), quantized(options)["x"].zero, rounding(options)
    )


def check_constants(s: Specs, units: int) -> None:
    """Raises ShapeError if b or m has not one value for each unit."""
    for name in "bm":
        if s[name].shape != (units,):
            raise ShapeError(f"{name} must be ({units},), but got {s[name]}")


def infer(attrs: IntegerConvAttrs, s: Specs) -> Specs:
    x, w = s["x"], s["w"]
    if len(x.shape) != 4 or len(w.shape) != 4 or x.shape[3] != w.shape[3]:
        raise ShapeError(
            f"x must be (N, H, W, C) and w (O, KH, KW, C) with one C, but got x {x}, w {w}"
        )
    check_constants(s, w.shape[0])
    h, v = attrs.windows.axes(x, w)
    return {"y": TensorSpec((x.shape[0], h.out, v.out, w.shape[0]), attrs.to.dtype)}


def product_type(x: TensorSpec, w: TensorSpec, depth: int) -> np.dtype[Any]:
    """Returns the float type in which sums of `depth` products are exact."""
    return exact_float(depth * largest(x.dtype) * largest(w.dtype))


def product_scratch(axes: Axes, source: PaddedImages, x: TensorSpec, w: TensorSpec) -> Specs:
    """Returns the workspace of `round_products`."""
    h, v = (a.reading for a in axes)
    units, depth = w.shape[0], w.size // w.shape[0]
    floats = product_type(x, w, depth)
    tile = tiling(source, h, v, floats.itemsize)
    rows = tile.images * min(tile.rows, h.count) * v.count
    return {
        **window_scratch(axes, source, floats),
        "filters": TensorSpec((depth, units), floats),
        "products": TensorSpec((rows, units), floats),
        "sums": TensorSpec((rows, units), sum_type(x.dtype)),
        "real": TensorSpec((rows, units), np.dtype(np.float32)),
    }


def round_products(
    x: Array,
    w: Array,
    b: Array,
    m: Array,
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
        w: (O, KH, KW, C).
        b, m: (O,).
        y: (N, OH, OW, O).
        axes, source: as returned by `geometry`.
        columns, filters, products, sums, real, padded: workspace of `product_scratch`.
    """
    units = len(w)
    h, v = (a.reading for a in axes)
    np.copyto(filters, w.reshape(units, -1, copy=False).T)
    for images, rows, tile in tiles(x, source, h, v, padded, columns, zero):
        out = y[images, rows].reshape(-1, units, copy=False)
        floats, integers, reals = (a[: len(out)] for a in (products, sums, real))
        np.matmul(tile, filters, out=floats)
        np.copyto(integers, floats, casting="unsafe")
        np.add(integers, b, out=integers)
        round_sums(integers, m, to, reals, out)
