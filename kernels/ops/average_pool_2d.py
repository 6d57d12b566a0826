"""AVERAGE_POOL_2D: mean of each window in each channel, without padding.

x (N, H, W, C)    y (N, OH, OW, C)

dx: every input of a window gets dy divided by the number of inputs in the window. Padding counts
neither forward nor backward. Source: Pool2DOptions in the TFLite schema.
"""

import numpy as np

from odt.kernels.families.pool import add_to_windows, back_workspace, flops, infer, workspace
from odt.kernels.geometry.im2col import PaddedImages, image_tiles
from odt.kernels.geometry.pool_geometry import PoolAttrs, average_geometry, pool_attrs
from odt.kernels.geometry.window import Axis, windows
from odt.kernels.native import pool as compiled
from odt.kernels.rows.opdef import Array, Kernel, OpDef
from odt.kernels.rows.quantizeddef import QuantizedDef


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
        out = y[images]
        np.einsum("nhwijc->nhwc", windows(inside, h, v), out=out)
        np.multiply(out, inverse_counts, out=out)


def grad_x(
    attrs: PoolAttrs,
    *,
    dy: Array,
    dx: Array,
    axes: tuple[Axis, Axis],
    source: PaddedImages,
    inverse_counts: Array,
    part: Array,
    dpadded: Array | None = None,
) -> None:
    for n in range(0, source.images, part.shape[0]):
        images = slice(n, min(n + part.shape[0], source.images))
        gradients = part[: images.stop - n]
        np.multiply(dy[images], inverse_counts, out=gradients)
        add_to_windows(gradients, dx[images], axes, source, dpadded)


OP = OpDef(
    "AVERAGE_POOL_2D",
    inputs=("x",),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x",),
        writes=("y",),
        workspace=workspace,
        prepare=average_geometry,
        compiled=compiled.MEAN_FORWARD,
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy",),
            writes=("dx",),
            workspace=back_workspace,
            prepare=average_geometry,
            compiled=compiled.MEAN_BACK,
        )
    },
    flops=flops,
    attrs=pool_attrs,
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 3},
        int8=True,
        int16=True,
        needs_scale=True,
        same="output",
        values="within",
        one_scale=True,
    ),
)
