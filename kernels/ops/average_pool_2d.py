"""AVERAGE_POOL_2D: the mean of each window, channel by channel, over the inputs inside the image.

x (N, H, W, C)    y (N, OH, OW, C)

dx: every input of a window gets dy divided by the window's number of inputs. Padding counts
neither forward nor backward. Source: Pool2DOptions in the TFLite schema.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.kernels.columns import Source, fitting_images, image_tiles
from odt.kernels.opdef import Array, Kernel, OpDef, Specs, TensorSpec
from odt.kernels.pooling import PoolAttrs, infer, pool_attrs, shares, source_of
from odt.kernels.pooling import geometry as pool_geometry
from odt.kernels.window import Axis, windows


def geometry(attrs: PoolAttrs, s: Specs) -> Mapping[str, Any]:
    return {**pool_geometry(attrs, s), "shares": shares(attrs, s["x"])}


def scratch(attrs: PoolAttrs, s: Specs) -> Specs:
    """A tile's images with their border, where there is one."""
    source, dtype = source_of(attrs, s["x"]), s["x"].dtype
    if not source.is_padded:
        return {}
    return {"padded": source.padded(fitting_images(source, dtype.itemsize), dtype)}


def forward(
    attrs: PoolAttrs,
    *,
    x: Array,
    y: Array,
    axes: tuple[Axis, Axis],
    source: Source,
    shares: Array,
    padded: Array | None = None,
) -> None:
    h, v = (a.reading for a in axes)
    for images, inside in image_tiles(x, source, padded):
        out = y[images]
        np.einsum("nhwijc->nhwc", windows(inside, h, v), out=out)
        np.multiply(out, shares, out=out)


def back_scratch(attrs: PoolAttrs, s: Specs) -> Specs:
    """For a tile of images: what each input of a window gets, and dx with its border."""
    source, dtype = source_of(attrs, s["x"]), s["x"].dtype
    images = fitting_images(source, dtype.itemsize)
    found = {"part": TensorSpec((images, *s["y"].shape[1:]), dtype)}
    if source.is_padded:
        found["dpadded"] = source.padded(images, dtype)
    return found


def grad_x(
    attrs: PoolAttrs,
    *,
    dy: Array,
    dx: Array,
    axes: tuple[Axis, Axis],
    source: Source,
    shares: Array,
    part: Array,
    dpadded: Array | None = None,
) -> None:
    h, v = (a.reading for a in axes)
    (h_lo, _), (v_lo, _) = source.h, source.w
    for n in range(0, source.images, part.shape[0]):
        images = slice(n, min(n + part.shape[0], source.images))
        count = images.stop - n
        into = dx[images] if dpadded is None else dpadded[:count]
        np.multiply(dy[images], shares, out=part[:count])
        into.fill(0)
        view = windows(into, h, v)
        for i in range(h.taps):
            for j in range(v.taps):
                tap = view[:, :, :, i, j]
                np.add(tap, part[:count], out=tap)
        if dpadded is not None:
            np.copyto(dx[images], into[:, h_lo : h_lo + source.height, v_lo : v_lo + source.width])


OP = OpDef(
    "AVERAGE_POOL_2D",
    inputs=("x",),
    infer=infer,
    forward=Kernel(forward, reads=("x",), writes=("y",), workspace=scratch, prepare=geometry),
    grads={
        "x": Kernel(grad_x, reads=("dy",), writes=("dx",), workspace=back_scratch, prepare=geometry)
    },
    attrs=pool_attrs,
)
