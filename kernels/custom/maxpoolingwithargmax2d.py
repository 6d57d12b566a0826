"""CUSTOM:MaxPoolingWithArgmax2D: maximum of each window in each channel, and its position.

x (N, H, W, C)    y, indices (N, OH, OW, C)

indices holds positions in the window (kernels/families/pool_indices.py), the first of equal values.
dx gets dy at the position; indices has no gradient.
Source: max_pool_argmax.cc in MediaPipe, which stores the options as TfLitePoolParams.
"""

from collections.abc import Callable, Mapping
from typing import Any

from odt.errors import ShapeError
from odt.kernels.families import pool_indices
from odt.kernels.families.pool import flops
from odt.kernels.families.pool import infer as infer_pool
from odt.kernels.families.pool_digest import POOL_ARGMAX
from odt.kernels.families.pool_indices import positions_of, write_positions
from odt.kernels.geometry.c_structs import POOL, unpack_struct
from odt.kernels.geometry.conv_geometry import Axes
from odt.kernels.geometry.im2col import PaddedImages
from odt.kernels.geometry.pool_geometry import PoolAttrs, geometry
from odt.kernels.native import pool
from odt.kernels.native.binding import in_order
from odt.kernels.ops import max_pool_2d
from odt.kernels.rows.opdef import Array, Compiled, Kernel, OpDef, Options, Specs

MAKE, SPREAD = POOL_ARGMAX.make, POOL_ARGMAX.gradient


def attrs(options: Options, statics: Mapping[str, Array]) -> PoolAttrs:
    activation = unpack_struct(options, POOL)["fused_activation_function"]
    if activation:
        raise ShapeError(f"the activation must be none (0), but got {activation}")
    return pool_indices.attrs(options, statics)


def infer(attrs: PoolAttrs, s: Specs) -> Specs:
    y = infer_pool(attrs, s)["y"]
    return {"y": y, "indices": y}


def workspace(attrs: PoolAttrs, s: Specs) -> Specs:
    return {**positions_of(s["y"]), **MAKE.workspace(attrs, s)}


def forward(
    attrs: PoolAttrs,
    *,
    x: Array,
    y: Array,
    indices: Array,
    positions: Array,
    is_max: Array,
    axes: Axes,
    source: PaddedImages,
    at_once: int,
    padded: Array | None = None,
) -> None:
    windows: dict[str, Any] = {"axes": axes, "source": source, "padded": padded}
    max_pool_2d.forward(attrs, x=x, y=y, **windows)
    MAKE.run(attrs, x=x, y=y, digest=positions, is_max=is_max, at_once=at_once, **windows)
    write_positions(positions, indices)()


def bind_forward(
    attrs: PoolAttrs, *, x: Array, y: Array, indices: Array, positions: Array, **windows: Any
) -> Callable[[], None]:
    return in_order(
        [
            pool.max_forward(attrs, x=x, y=y, **windows),
            pool.argmax(attrs, x=x, y=y, digest=positions, **windows),
            write_positions(positions, indices),
        ]
    )


def back_workspace(attrs: PoolAttrs, s: Specs) -> Specs:
    return {**positions_of(s["y"]), **SPREAD.workspace(attrs, s)}


def grad_x(attrs: PoolAttrs, *, dy: Array, dx: Array, **kwargs: Any) -> None:
    pool_indices.spread(attrs, values=dy, into=dx, **kwargs)


def bind_grad_x(attrs: PoolAttrs, *, dy: Array, dx: Array, **kwargs: Any) -> Callable[[], None]:
    return pool_indices.bind_spread(attrs, values=dy, into=dx, **kwargs)


def positions(attrs: PoolAttrs, s: Specs) -> Specs:
    return positions_of(s["y"])


OP = OpDef(
    "CUSTOM:MaxPoolingWithArgmax2D",
    inputs=("x",),
    outputs=("y", "indices"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x",),
        writes=("y", "indices"),
        workspace=workspace,
        prepare=MAKE.prepare,
        compiled=Compiled(bind_forward, pool.fits, positions, geometry),
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "indices"),
            writes=("dx",),
            workspace=back_workspace,
            prepare=SPREAD.prepare,
            compiled=Compiled(bind_grad_x, pool.fits, positions, geometry),
        )
    },
    flops=flops,
    attrs=attrs,
)
