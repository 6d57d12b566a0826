"""GATHER: slices of x along an axis, selected by indices.

x (B…, P…, K, Q…)    indices (B…, I…)    y (B…, P…, I…, Q…); K is the axis, B… are batch_dims axes

dx: each slice is the sum of dy over the indices that select it.

With x and y as rows of Q values, row (b, p, i) of y is row (b P + p) K + indices[b, i] of x.
Source: GatherOptions in the TFLite schema, tf.gather.
"""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import DataError, ShapeError
from odt.kernels.families.gather import INDEX, put, take
from odt.kernels.geometry.axes import behind
from odt.kernels.native.binding import Run, in_order
from odt.kernels.native.gather import fits, scatter_add, select
from odt.kernels.native.typed import check_extent, find_slices, row_extent
from odt.kernels.rows.opdef import (
    Array,
    Compiled,
    Kernel,
    Names,
    OpDef,
    Options,
    RowSums,
    Specs,
    TensorSpec,
)
from odt.kernels.rows.quantizeddef import QuantizedDef


@dataclass(frozen=True, slots=True)
class GatherAttrs:
    axis: int
    batch_dims: int

    def resolved(self, s: Specs) -> tuple[int, int]:
        """Returns axis and batch_dims, counted from 0; raises ShapeError if they do not fit."""
        rank, lead = len(s["x"].shape), len(s["indices"].shape)
        axis = self.axis + rank if self.axis < 0 else self.axis
        dims = self.batch_dims + lead if self.batch_dims < 0 else self.batch_dims
        same = s["x"].shape[:dims] == s["indices"].shape[:dims]
        if not 0 <= dims <= axis < rank or dims > lead or not same:
            raise ShapeError(
                f"axis must be one of x's, and x and indices alike up to batch_dims before it, but "
                f"got {self.axis}, {self.batch_dims}, x {s['x']}, indices {s['indices']}"
            )
        return axis, dims


def attrs(options: Options, statics: Mapping[str, Array]) -> GatherAttrs:
    return GatherAttrs(int(options.get("axis", 0)), int(options.get("batch_dims", 0)))


def infer(attrs: GatherAttrs, s: Specs) -> Specs:
    x, indices = s["x"], s["indices"]
    axis, dims = attrs.resolved(s)
    if indices.dtype.kind != "i":
        raise ShapeError(f"indices must be integers, but got {indices}")
    shape = (*x.shape[:axis], *indices.shape[dims:], *x.shape[axis + 1 :])
    return {"y": TensorSpec(shape, x.dtype)}


def mixes_samples(attrs: GatherAttrs, s: Specs, batched: Names) -> bool:
    """Whether slices are selected from a batched x: indices may select other samples."""
    axis, dims = attrs.resolved(s)
    if dims:
        return False
    if len(batched) == 2:
        return True
    if "x" in batched:
        return axis == 0
    return axis != 0  # the batch of indices is then not axis 0 of y


def rows(attrs: GatherAttrs, s: Specs) -> Specs:
    """Returns the workspace for the row of x of each row of y."""
    axis, dims = attrs.resolved(s)
    x, indices = s["x"].shape, s["indices"].shape
    return {"at": TensorSpec((prod(x[:dims]), prod(x[dims:axis]), prod(indices[dims:])), INDEX)}


def geometry(attrs: GatherAttrs, s: Specs) -> Mapping[str, Any]:
    """Returns K, and the first row of x for each (b, p)."""
    axis, _ = attrs.resolved(s)
    b, p, _ = rows(attrs, s)["at"].shape
    entries = s["x"].shape[axis]
    first = np.arange(b * p, dtype=INDEX).reshape(b, p, 1) * entries
    return {"entries": entries, "first": first}


def find(indices: Array, entries: int, first: Array, at: Array) -> None:
    """Fills `at` with the row of x of each row of y.

    Raises:
        DataError: if an index is outside the axis.
    """
    if indices.size:
        # For few indices, np.min takes several times as long as `reduce`.
        least, most = np.minimum.reduce(indices, axis=None), np.maximum.reduce(indices, axis=None)
        if least < 0 or most >= entries:
            raise DataError(f"GATHER: indices must be 0 … {entries - 1}, but got {least} … {most}")
    np.add(indices.reshape(at.shape[0], 1, at.shape[2], copy=False), first, out=at)


def forward(
    attrs: GatherAttrs, *, x: Array, indices: Array, y: Array, at: Array, entries: int, first: Array
) -> None:
    if not y.size:
        return
    find(indices, entries, first, at)
    take(x, at.reshape(-1, copy=False), y.size // at.size, y)


def compiled_rows(attrs: GatherAttrs, s: Specs) -> Specs:
    return {**rows(attrs, s), **row_extent(1)}


def call_find(indices: Array, at: Array, extent: Array, entries: int) -> list[Run]:
    """Returns the calls that fill `at` as `find` does, and refuse an index outside the axis."""

    def error(_: int, least: int, most: int) -> DataError:
        return DataError(f"GATHER: indices must be 0 … {entries - 1}, but got {least} … {most}")

    return [find_slices(indices, entries, at, extent), check_extent(extent, (entries,), error)]


def call_forward(
    attrs: GatherAttrs,
    *,
    x: Array,
    indices: Array,
    y: Array,
    at: Array,
    extent: Array,
    entries: int,
    first: Array,
) -> Callable[[], None]:
    return in_order([*call_find(indices, at, extent, entries), select(x, at, y)])


def grad_x(attrs: GatherAttrs, *, dy: Array, dx: Array, at: Array, **kwargs: Any) -> None:
    if dy.size:
        find(at=at, **kwargs)
    put(dx, at.reshape(-1, copy=False), dy.size // max(at.size, 1), dy)


def call_grad_x(
    attrs: GatherAttrs,
    *,
    dy: Array,
    indices: Array,
    dx: Array,
    at: Array,
    extent: Array,
    entries: int,
    first: Array,
) -> Callable[[], None]:
    return in_order([*call_find(indices, at, extent, entries), scatter_add(dy, at, dx)])


def selects_rows(attrs: GatherAttrs, s: Specs) -> bool:
    """Whether indices select whole rows of x, along its first axis."""
    return attrs.resolved(s) == (0, 0)


def find_rows(attrs: GatherAttrs, **arrays: Any) -> None:
    find(**arrays)


def call_find_rows(
    attrs: GatherAttrs, *, indices: Array, at: Array, extent: Array, entries: int, first: Array
) -> Run:
    return find_slices(indices, entries, at, extent)


def add_batch_axis(attrs: GatherAttrs, samples: int) -> GatherAttrs:
    return GatherAttrs(behind(attrs.axis), behind(attrs.batch_dims))


FORWARD = Kernel(
    forward,
    reads=("x", "indices"),
    writes=("y",),
    workspace=rows,
    prepare=geometry,
    compiled=Compiled(call_forward, fits("y"), compiled_rows, geometry),
)
OP = OpDef(
    "GATHER",
    inputs=("x", "indices"),
    infer=infer,
    forward=FORWARD,
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "indices"),
            writes=("dx",),
            workspace=rows,
            prepare=geometry,
            compiled=Compiled(call_grad_x, fits("dy"), compiled_rows, geometry),
            row_sums=RowSums(selects_rows, find_rows, call_find_rows),
        )
    },
    stops=("indices",),
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=add_batch_axis,
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 4, "INT4": 7}, int8=True, same="output", values="moved"
    ),
)
