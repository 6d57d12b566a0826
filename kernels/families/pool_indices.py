"""Positions of maxima in their windows, as MediaPipe's custom operators store them in floats.

A position counts the values of a window row by row from 0, including those outside the image. 0.1
is added to it, so that it stays the same when it is rounded towards 0. Positions beyond the window
mean that there is no value.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.pool_digest import POOL_ARGMAX
from odt.kernels.geometry.c_structs import POOL, unpack_struct
from odt.kernels.geometry.conv_geometry import Axes
from odt.kernels.geometry.im2col import PaddedImages
from odt.kernels.geometry.pool_geometry import NO_TAP, PoolAttrs, pool_attrs
from odt.kernels.native import pool
from odt.kernels.native.binding import in_order
from odt.kernels.rows.opdef import Array, Options, Specs, TensorSpec

BYTE = np.dtype(np.uint8)
ADDED = 0.1
SPREAD = POOL_ARGMAX.gradient


def attrs(options: Options, statics: Mapping[str, Array]) -> PoolAttrs:
    attrs = pool_attrs(unpack_struct(options, POOL), statics)
    height, width = attrs.window
    if height * width >= NO_TAP:
        raise ShapeError(
            f"a window must have fewer than {NO_TAP} values, but got {height} × {width}"
        )
    return attrs


def positions_of(indices: TensorSpec) -> Specs:
    """Returns the workspace for positions as bytes."""
    return {"positions": TensorSpec(indices.shape, BYTE)}


def write_positions(positions: Array, indices: Array) -> Callable[[], None]:
    return partial(np.add, positions, ADDED, out=indices, dtype=indices.dtype, casting="unsafe")


def read_positions(indices: Array, positions: Array) -> Callable[[], None]:
    return partial(np.clip, indices, 0, NO_TAP, out=positions, casting="unsafe")


def spread(
    attrs: PoolAttrs, *, values: Array, indices: Array, into: Array, positions: Array, **kwargs: Any
) -> None:
    """Fills images with zeros, and with the value of each window at its position."""
    read_positions(indices, positions)()
    SPREAD.run(attrs, dy=values, digest=positions, dx=into, **kwargs)


def bind_spread(
    attrs: PoolAttrs,
    *,
    values: Array,
    indices: Array,
    into: Array,
    positions: Array,
    axes: Axes,
    source: PaddedImages,
) -> Callable[[], None]:
    compiled = pool.argmax_back(
        attrs, dy=values, digest=positions, dx=into, axes=axes, source=source
    )
    return in_order([read_positions(indices, positions), compiled])
