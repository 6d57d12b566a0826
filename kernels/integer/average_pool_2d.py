"""INTEGER_AVERAGE_POOL_2D: mean of each window in each channel of quantized images.

x (N, H, W, C)    y (N, OH, OW, C)

y = Σ x / n for the n inputs of a window, halves rounded away from 0; x and y have one quantization.
Padding does not count. Source: Pool2DOptions in the TFLite schema, and TFLite's kernel.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.pool import flops as pool_flops
from odt.kernels.families.requantize import Rounding, exact_float, largest, rounding, sum_type
from odt.kernels.geometry.im2col import PaddedImages, fitting_images
from odt.kernels.geometry.pool_geometry import PoolAttrs, inverse_counts, pool_attrs, source_of
from odt.kernels.geometry.window import Axis, clear_border, fill_inside, windows
from odt.kernels.native.integer import average_pool, average_pool_fits
from odt.kernels.rows.opdef import Array, Compiled, Kernel, OpDef, Options, Specs, TensorSpec


@dataclass(frozen=True, slots=True)
class IntegerPoolAttrs:
    """Windows, and the bounds of y."""

    pool: PoolAttrs
    to: Rounding


def attrs(options: Options, statics: Mapping[str, Array]) -> IntegerPoolAttrs:
    return IntegerPoolAttrs(pool_attrs(options, statics), rounding(options))


def infer(attrs: IntegerPoolAttrs, s: Specs) -> Specs:
    x = s["x"]
    if len(x.shape) != 4:
        raise ShapeError(f"x must be (N, H, W, C), but got {x}")
    h, v = attrs.pool.axes(x)
    return {"y": TensorSpec((x.shape[0], h.out, v.out, x.shape[3]), attrs.to.dtype)}


def geometry(attrs: IntegerPoolAttrs, s: Specs) -> Mapping[str, Any]:
    """Prepares windows and the number of inputs in each, (OH, OW, 1)."""
    x = s["x"]
    inverse = inverse_counts(attrs.pool, TensorSpec(x.shape, np.dtype(np.float64)))
    counts = np.rint(1 / inverse).astype(sum_type(x.dtype))
    return {
        "axes": attrs.pool.axes(x),
        "source": source_of(attrs.pool, x),
        "counts": counts,
        "halves": counts // 2,
    }


def axes_of(attrs: IntegerPoolAttrs, s: Specs) -> Mapping[str, Any]:
    return {"axes": attrs.pool.axes(s["x"])}


def workspace(attrs: IntegerPoolAttrs, s: Specs) -> Specs:
    """Returns the workspace for a tile of images: the padded images, and sums."""
    source, x = source_of(attrs.pool, s["x"]), s["x"].dtype
    floats = exact_float(attrs.pool.window[0] * attrs.pool.window[1] * largest(x))
    images = fitting_images(source, floats.itemsize)
    part = (images, *s["y"].shape[1:])
    return {
        "padded": source.padded(images, floats),
        "totals": TensorSpec(part, floats),
        "sums": TensorSpec(part, sum_type(x)),
        "signs": TensorSpec(part, sum_type(x)),
    }


def forward(
    attrs: IntegerPoolAttrs,
    *,
    x: Array,
    y: Array,
    axes: tuple[Axis, Axis],
    source: PaddedImages,
    counts: Array,
    halves: Array,
    padded: Array,
    totals: Array,
    sums: Array,
    signs: Array,
) -> None:
    h, v = (a.reading for a in axes)
    clear_border(padded, source.h, source.w)
    for n in range(0, source.images, len(padded)):
        images = slice(n, min(n + len(padded), source.images))
        inside = fill_inside(padded, x[images], source.h[0], source.w[0])
        floats, integers, sign = (a[: len(inside)] for a in (totals, sums, signs))
        np.einsum("nhwijc->nhwc", windows(inside, h, v), out=floats)
        np.copyto(integers, floats, casting="unsafe")
        np.sign(integers, out=sign)
        np.abs(integers, out=integers)
        np.add(integers, halves, out=integers)
        np.floor_divide(integers, counts, out=integers)
        np.multiply(integers, sign, out=integers)
        np.clip(integers, attrs.to.lo, attrs.to.hi, out=integers)
        np.copyto(y[images], integers, casting="unsafe")


def flops(attrs: IntegerPoolAttrs, s: Specs) -> int:
    return pool_flops(attrs.pool, s)


OP = OpDef(
    "INTEGER_AVERAGE_POOL_2D",
    inputs=("x",),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x",),
        writes=("y",),
        workspace=workspace,
        prepare=geometry,
        compiled=Compiled(average_pool, average_pool_fits, prepare=axes_of),
    ),
    grads={},
    stops=("x",),
    attrs=attrs,
    keeps_activation=True,
    flops=flops,
)
