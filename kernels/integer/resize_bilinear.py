"""INTEGER_RESIZE_BILINEAR: resizes quantized images by bilinear interpolation.

x (N, H, W, C)    size (2,), constant    y (N, *size, C)

An output of an axis is at p between the inputs i and i + 1, as in RESIZE_BILINEAR, and takes them
with the weights n − f and f, where f is n (p − i) as an integer: y = Σ f_h f_w x / n². x and y have
one quantization.

- int8, uint8: n = 2¹¹, p in float32, and halves of y are rounded up, as in XNNPACK.
- int16: n = 2¹⁰, p is the number of the output times the distance of outputs, which is rounded to a
  multiple of 1/n, and halves of y are rounded away from 0, as in TFLite's reference kernel.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.requantize import Rounding, rounding
from odt.kernels.families.resize import ResizeAttrs, as_cols, as_rows, image_tiles, step
from odt.kernels.families.resize import attrs as resize_attrs
from odt.kernels.geometry.im2col import TILE_BYTES
from odt.kernels.native import integer
from odt.kernels.rows.opdef import Array, Compiled, Kernel, OpDef, Options, Specs, TensorSpec

FLOAT64 = np.dtype(np.float64)  # holds all sums exactly
BITS = {1: 11, 2: 10}  # of n, by bytes of the integers


@dataclass(frozen=True, slots=True)
class IntegerResizeAttrs:
    """Size of y and alignment of the pixel grids, and the dtype of y."""

    resize: ResizeAttrs
    to: Rounding


def attrs(options: Options, statics: Mapping[str, Array]) -> IntegerResizeAttrs:
    return IntegerResizeAttrs(resize_attrs(options, statics), rounding(options))


def infer(attrs: IntegerResizeAttrs, s: Specs) -> Specs:
    x, size = s["x"], attrs.resize.size
    if len(x.shape) != 4 or 0 in x.shape[1:3]:
        raise ShapeError(f"x must be (N, H, W, C), H and W 1 or more, but got {x}")
    if len(size) != 2 or min(size) < 1:
        raise ShapeError(f"size must be (height, width) of 1 or more, but got {size}")
    if attrs.resize.align_corners and attrs.resize.half_pixel_centers:
        raise ShapeError("align_corners excludes half_pixel_centers, but got both")
    return {"y": TensorSpec((x.shape[0], *size, x.shape[3]), attrs.to.dtype)}


def weigh_bytes(attrs: ResizeAttrs, size: int, out: int) -> tuple[Array, Array]:
    """Returns the first of the two inputs of each output of an axis, and the second's weight."""
    distance = np.float32(step(attrs, size, out))
    place = np.arange(out, dtype=np.float32) * distance
    if attrs.half_pixel_centers:
        place += np.float32(0.5) * distance - np.float32(0.5)
    place = place.clip(0, size - 1)
    first = place.astype(int)
    part = place - first.astype(np.float32)
    return first, np.rint(part * np.float32(1 << BITS[1])).astype(int)


def weigh_int16(attrs: ResizeAttrs, size: int, out: int) -> tuple[Array, Array]:
    """Returns the same as `weigh_bytes` for int16."""
    one, ends = 1 << BITS[2], int(attrs.align_corners and out > 1)
    distance = (one * (size - ends) + (out - ends) // 2) // (out - ends)
    place = np.arange(out) * distance
    if attrs.half_pixel_centers:
        place += distance // 2 - one // 2
    place = place.clip(0, one * (size - 1))
    first: Array = place // one
    return first, place % one


def weights(attrs: ResizeAttrs, x: TensorSpec, axis: int) -> Array:
    """Returns the weights (outputs, inputs) of an axis of x, times n."""
    size, out, itemsize = x.shape[axis], attrs.size[axis - 1], x.dtype.itemsize
    weigh = weigh_bytes if itemsize == 1 else weigh_int16
    first, weight = weigh(attrs, size, out)
    matrix = np.zeros((out, size), FLOAT64)
    outputs = np.arange(out)
    matrix[outputs, first] = (1 << BITS[itemsize]) - weight
    matrix[outputs, np.minimum(first + 1, size - 1)] += weight
    return matrix


def prepare(attrs: IntegerResizeAttrs, s: Specs) -> Mapping[str, Any]:
    rows, cols = (weights(attrs.resize, s["x"], axis) for axis in (1, 2))
    return {"rows": rows, "cols": cols}


def pairs(attrs: IntegerResizeAttrs, s: Specs) -> Mapping[str, Any]:
    """Prepares the first inputs and the weights of the second ones of both axes, for bytes."""
    axes = zip(("rows", "cols"), s["x"].shape[1:3], attrs.resize.size, strict=True)
    return {n: np.stack(weigh_bytes(attrs.resize, *sizes)).astype(np.int32) for n, *sizes in axes}


def workspace(attrs: IntegerResizeAttrs, s: Specs) -> Specs:
    """Returns the workspace for a tile of images, resized in width, and rows of their outputs."""
    n, height, width, channels = s["x"].shape
    out, across = attrs.resize.size
    row = across * channels * FLOAT64.itemsize
    images = max(min(TILE_BYTES // max(row * max(height, out), 1), n), 1)
    rows = out if images > 1 else max(min(TILE_BYTES // max(row, 1), out), 1)
    return {
        "real": TensorSpec((images, height, width, channels), FLOAT64),
        "resized_width": TensorSpec((images, height, across, channels), FLOAT64),
        "sums": TensorSpec((images, rows, across, channels), FLOAT64),
        "halves": TensorSpec((images, rows, across, channels), FLOAT64),
    }


def forward(
    attrs: IntegerResizeAttrs,
    *,
    x: Array,
    y: Array,
    rows: Array,
    cols: Array,
    real: Array,
    resized_width: Array,
    sums: Array,
    halves: Array,
) -> None:
    is_bytes, at_once = x.dtype.itemsize == 1, sums.shape[1]
    unit = 0.25 ** BITS[x.dtype.itemsize]
    for images, part in image_tiles(len(x), resized_width):
        source = real[: len(part)]
        np.copyto(source, x[images])
        np.matmul(cols, as_cols(source), out=as_cols(part))
        for at in range(0, len(rows), at_once):
            matrix = rows[at : at + at_once]
            result, half = (a[: len(part), : len(matrix)] for a in (sums, halves))
            np.matmul(matrix, as_rows(part), out=as_rows(result))
            np.multiply(result, unit, out=result)
            if is_bytes:  # halves are rounded up
                np.add(result, 0.5, out=result)
                np.floor(result, out=result)
            else:  # halves are rounded away from 0
                np.copysign(0.5, result, out=half)
                np.add(result, half, out=result)
                np.trunc(result, out=result)
            np.copyto(y[images, at : at + at_once], result, casting="unsafe")


OP = OpDef(
    "INTEGER_RESIZE_BILINEAR",
    inputs=("x", "size"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x",),
        writes=("y",),
        workspace=workspace,
        prepare=prepare,
        compiled=Compiled(integer.resize, integer.resize_fits, prepare=pairs),
    ),
    grads={},
    stops=("x",),
    static=("size",),
    attrs=attrs,
    keeps_activation=True,
)
