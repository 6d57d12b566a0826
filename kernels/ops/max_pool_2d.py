"""MAX_POOL_2D: maximum of each window in each channel, without padding.

x (N, H, W, C)    y (N, OH, OW, C)

dx gets dy at the maximum of the window, the first of equal values in scan order, as in PyTorch and
onert. Backward finds the maximum from x and y, which other operators usually save too. Forward also
takes integers of quantized tensors.
Source: Pool2DOptions in the TFLite schema.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.kernels.families.pool import flops, infer_moved, workspace
from odt.kernels.families.pool_digest import POOL_ARGMAX
from odt.kernels.geometry.im2col import PaddedImages, fitting_images, image_tiles
from odt.kernels.geometry.pool_geometry import PoolAttrs, geometry, pool_attrs, source_of
from odt.kernels.geometry.window import Axis, clear_border, fill_inside, windows
from odt.kernels.native import pool as compiled
from odt.kernels.rows.opdef import Array, Kernel, OpDef, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef

BOOL = np.dtype(bool)


def forward(
    attrs: PoolAttrs,
    *,
    x: Array,
    y: Array,
    axes: tuple[Axis, Axis],
    source: PaddedImages,
    padded: Array | None = None,
) -> None:
    h, v = (a.reading for a in axes)
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    for images, inside in image_tiles(x, source, padded, least):
        view, out = windows(inside, h, v), y[images]
        np.copyto(out, view[:, :, :, 0, 0])
        for i in range(h.taps):
            for j in range(v.taps):
                np.maximum(out, view[:, :, :, i, j], out=out)


def back_geometry(attrs: PoolAttrs, s: Specs) -> Mapping[str, Any]:
    source = source_of(attrs, s["x"])
    return {**geometry(attrs, s), "at_once": fitting_images(source, s["x"].dtype.itemsize)}


def back_scratch(attrs: PoolAttrs, s: Specs) -> Specs:
    """Returns the workspace for a tile: masks of maxima and of finished windows, and gradients."""
    source, y, dtype = source_of(attrs, s["x"]), s["y"], s["x"].dtype
    images = fitting_images(source, dtype.itemsize)
    part = (images, *y.shape[1:])
    specs = {
        "is_max": TensorSpec(part, BOOL),
        "assigned": TensorSpec(part, BOOL),
        "gradient": TensorSpec(part, dtype),
    }
    if source.is_padded:
        specs["padded"] = specs["dpadded"] = source.padded(images, dtype)
    return specs


def grad_x(
    attrs: PoolAttrs,
    *,
    dy: Array,
    x: Array,
    y: Array,
    dx: Array,
    axes: tuple[Axis, Axis],
    source: PaddedImages,
    at_once: int,
    is_max: Array,
    assigned: Array,
    gradient: Array,
    padded: Array | None = None,
    dpadded: Array | None = None,
) -> None:
    h, v = (a.reading for a in axes)
    (h_lo, _), (v_lo, _) = source.h, source.w
    if padded is not None:
        clear_border(padded, source.h, source.w, -np.inf)
    for n in range(0, source.images, at_once):
        images = slice(n, min(n + at_once, source.images))
        count = images.stop - n
        inside, into = x[images], dx[images]
        if padded is not None and dpadded is not None:
            inside, into = fill_inside(padded, x[images], h_lo, v_lo), dpadded[:count]
        into.fill(0)
        view, dview = windows(inside, h, v), windows(into, h, v)
        mask, any_max, part = is_max[:count], assigned[:count], gradient[:count]
        any_max.fill(False)
        for i in range(h.taps):
            for j in range(v.taps):
                np.equal(view[:, :, :, i, j], y[images], out=mask)
                np.greater(mask, any_max, out=mask)
                np.logical_or(any_max, mask, out=any_max)
                np.multiply(dy[images], mask, out=part)
                tap = dview[:, :, :, i, j]
                np.add(tap, part, out=tap)
        if dpadded is not None:
            np.copyto(dx[images], into[:, h_lo : h_lo + source.height, v_lo : v_lo + source.width])


OP = OpDef(
    "MAX_POOL_2D",
    inputs=("x",),
    infer=infer_moved,
    forward=Kernel(
        forward,
        reads=("x",),
        writes=("y",),
        workspace=workspace,
        prepare=geometry,
        compiled=compiled.MAX_FORWARD,
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "x", "y"),
            writes=("dx",),
            workspace=back_scratch,
            prepare=back_geometry,
            compiled=compiled.MAX_BACK,
            digest=POOL_ARGMAX,
        )
    },
    flops=flops,
    attrs=pool_attrs,
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 3}, int8=True, int16=True, same="output", values="moved"
    ),
)
