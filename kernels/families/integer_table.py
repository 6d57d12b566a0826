"""Integer rows of one input of 8 bits, from a table of y for all integers."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from odt.errors import ShapeError
from odt.kernels.geometry.axes import same
from odt.kernels.geometry.quantize import limits
from odt.kernels.rows.opdef import TILE, Array, Attrs, Kernel, OpDef, Options, Specs, TensorSpec


def infer(attrs: Attrs, s: Specs) -> Specs:
    x = s["x"]
    if x.dtype.itemsize != 1 or x.dtype != attrs.to.dtype:
        raise ShapeError(f"x and y must have one type of 8 bits, but got {x}, y {attrs.to.dtype}")
    return {"y": TensorSpec(x.shape, x.dtype)}


def workspace(attrs: Attrs, s: Specs) -> Specs:
    return {"places": TensorSpec((min(TILE, s["x"].size),), np.dtype(np.intp))}


def forward(attrs: Attrs, *, x: Array, y: Array, table: Array, least: int, places: Array) -> None:
    flat, results = (a.reshape(-1, copy=False) for a in (x, y))
    for at in range(0, flat.size, TILE):
        integers = flat[at : at + TILE]
        indices = places[: integers.size]
        np.subtract(integers, least, out=indices, dtype=np.intp)
        np.take(table, indices, out=results[at : at + TILE], mode="clip")


def table_row(
    name: str,
    attrs: Callable[[Options, Mapping[str, Array]], Attrs],
    values: Callable[[Attrs, Array], Array],
) -> OpDef:
    """Makes the row of an operator.

    Args:
        name: name of the row.
        attrs: as in OpDef; the result has a Rounding `to`.
        values: (attrs, integers of x) → those of y, which are limited afterwards.
    """

    def table(attrs: Attrs, s: Specs) -> Mapping[str, Any]:
        lo, hi = limits(s["x"].dtype)
        y = values(attrs, np.arange(lo, hi + 1))
        return {"table": np.clip(y, attrs.to.lo, attrs.to.hi).astype(attrs.to.dtype), "least": lo}

    return OpDef(
        name,
        inputs=("x",),
        infer=infer,
        forward=Kernel(forward, reads=("x",), writes=("y",), workspace=workspace, prepare=table),
        grads={},
        stops=("x",),
        attrs=attrs,
        add_batch_axis=same,
        permute=same,
    )
