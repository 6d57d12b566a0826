"""Shape inference, workspace and backward pass of pooling operators."""

import numpy as np

from odt.errors import ShapeError
from odt.kernels.geometry.im2col import PaddedImages, fitting_images
from odt.kernels.geometry.pool_geometry import PoolAttrs, source_of
from odt.kernels.geometry.window import Axis, windows
from odt.kernels.rows.opdef import Array, Specs, TensorSpec

STORED = tuple(map(np.dtype, (np.int8, np.uint8, np.int16)))  # types of quantized activations


def infer(attrs: PoolAttrs, s: Specs) -> Specs:
    return infer_of(attrs, s["x"])


def infer_moved(attrs: PoolAttrs, s: Specs) -> Specs:
    """Infers the shape of a result whose values are those of x, which may also be integers."""
    return infer_of(attrs, s["x"], STORED)


def infer_of(
    attrs: PoolAttrs, x: TensorSpec, integers: tuple[np.dtype[np.generic], ...] = ()
) -> Specs:
    """Infers the shape of a result of x of a float type or one of these types of integers."""
    if len(x.shape) != 4 or (x.dtype.kind != "f" and x.dtype not in integers):
        names = "".join(f" or {dtype}" for dtype in integers)
        raise ShapeError(f"x must be (N, H, W, C) of a float type{names}, but got {x}")
    h, v = attrs.axes(x)
    return {"y": TensorSpec((x.shape[0], h.out, v.out, x.shape[3]), x.dtype)}


def flops(attrs: PoolAttrs, s: Specs) -> int:
    """Counts one operation for each value of each window."""
    h, v = attrs.axes(s["x"])
    return h.kernel * v.kernel * s["y"].size


def workspace(attrs: PoolAttrs, s: Specs) -> Specs:
    """Returns the workspace for a tile of padded images; none without padding."""
    source, dtype = source_of(attrs, s["x"]), s["x"].dtype
    if not source.is_padded:
        return {}
    return {"padded": source.padded(fitting_images(source, dtype.itemsize), dtype)}


def back_workspace(attrs: PoolAttrs, s: Specs) -> Specs:
    """Returns the workspace for a tile: the gradient of each window, and dx with its border."""
    source, dtype = source_of(attrs, s["x"]), s["x"].dtype
    images = fitting_images(source, dtype.itemsize)
    specs = {"part": TensorSpec((images, *s["y"].shape[1:]), dtype)}
    if source.is_padded:
        specs["dpadded"] = source.padded(images, dtype)
    return specs


def add_to_windows(
    gradients: Array,
    dx: Array,
    axes: tuple[Axis, Axis],
    source: PaddedImages,
    dpadded: Array | None,
) -> None:
    """Fills dx of a tile of images: the gradient of a window is added to all its inputs.

    Args:
        gradients: gradient of each window (N, OH, OW, C).
        dpadded: workspace for dx with its border; None without padding.
    """
    h, v = (a.reading for a in axes)
    into = dx if dpadded is None else dpadded[: len(dx)]
    into.fill(0)
    view = windows(into, h, v)
    for i in range(h.taps):
        for j in range(v.taps):
            tap = view[:, :, :, i, j]
            np.add(tap, gradients, out=tap)
    if dpadded is not None:
        (top, _), (left, _) = source.h, source.w
        np.copyto(dx, into[:, top : top + source.height, left : left + source.width])
