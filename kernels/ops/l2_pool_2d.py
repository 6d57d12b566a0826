"""L2_POOL_2D: root mean square of each window in each channel.

x (N, H, W, C)    y (N, OH, OW, C)

y = √(Σ window(x)² / n), where n is the number of inputs in the window, without padding.
dx = x Σ dy / (n y) over the windows that contain x. A window with y = 0 adds 0, which is a
subgradient. Source: Pool2DOptions in the TFLite schema.
"""

import numpy as np

from odt.kernels.families.pool import add_to_windows, back_workspace, flops, infer, workspace
from odt.kernels.geometry.im2col import PaddedImages, image_tiles
from odt.kernels.geometry.pool_geometry import PoolAttrs, average_geometry, pool_attrs
from odt.kernels.geometry.window import Axis, windows
from odt.kernels.rows.opdef import Array, Kernel, OpDef, Specs, TensorSpec


def forward(
    attrs: PoolAttrs,
    *,
    x: Array,
    y: Array,
    axes: tuple[Axis, Axis],
    source: PaddedImages,
    inverse_counts: Array,
    padded: Array | None = None,
) -> None:
    h, v = (a.reading for a in axes)
    for images, inside in image_tiles(x, source, padded):
        view, out = windows(inside, h, v), y[images]
        np.einsum("nhwijc,nhwijc->nhwc", view, view, out=out)
        np.multiply(out, inverse_counts, out=out)
    np.sqrt(y, out=y)


def back_scratch(attrs: PoolAttrs, s: Specs) -> Specs:
    specs = back_workspace(attrs, s)
    return {**specs, "positive": TensorSpec(specs["part"].shape, np.dtype(bool))}


def grad_x(
    attrs: PoolAttrs,
    *,
    dy: Array,
    x: Array,
    y: Array,
    dx: Array,
    axes: tuple[Axis, Axis],
    source: PaddedImages,
    inverse_counts: Array,
    part: Array,
    positive: Array,
    dpadded: Array | None = None,
) -> None:
    for n in range(0, source.images, part.shape[0]):
        images = slice(n, min(n + part.shape[0], source.images))
        gradients, mask = part[: images.stop - n], positive[: images.stop - n]
        np.greater(y[images], 0, out=mask)
        np.multiply(dy[images], inverse_counts, out=gradients)
        # Where y is 0, so is every x of its window, and dx after the product with x.
        np.divide(gradients, y[images], out=gradients, where=mask)
        add_to_windows(gradients, dx[images], axes, source, dpadded)
    np.multiply(dx, x, out=dx)


OP = OpDef(
    "L2_POOL_2D",
    inputs=("x",),
    infer=infer,
    forward=Kernel(
        forward, reads=("x",), writes=("y",), workspace=workspace, prepare=average_geometry
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "x", "y"),
            writes=("dx",),
            workspace=back_scratch,
            prepare=average_geometry,
        )
    },
    flops=flops,
    attrs=pool_attrs,
)
