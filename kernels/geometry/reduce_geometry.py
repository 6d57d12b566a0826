"""Attributes of reductions: the axes, and whether they are kept with length 1."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.geometry.axes import behind
from odt.kernels.rows.opdef import Array, Options, Specs, TensorSpec


@dataclass(frozen=True, slots=True)
class ReduceAttrs:
    """Axes as in the file, possibly negative, and whether they are kept with length 1."""

    axes: tuple[int, ...]
    keep_dims: bool


def reduce_attrs(options: Options, statics: Mapping[str, Array]) -> ReduceAttrs:
    axes = tuple(int(a) for a in np.ravel(statics["axes"]))
    return ReduceAttrs(axes, bool(options.get("keep_dims", False)))


def reduced_axes(attrs: ReduceAttrs, x: TensorSpec) -> tuple[int, ...]:
    """Returns the axes counted from 0, sorted, without duplicates."""
    rank = len(x.shape)
    for a in attrs.axes:
        if not -rank <= a < rank:
            raise ShapeError(f"axes must be within −{rank} … {rank - 1}, but got {attrs.axes}")
    return tuple(sorted({a % rank for a in attrs.axes}))


def shape_with_keepdims(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if k in axes else n for k, n in enumerate(shape))


def later_axes(attrs: ReduceAttrs, samples: int) -> ReduceAttrs:
    return replace(attrs, axes=tuple(map(behind, attrs.axes)))


def moved_axes(attrs: ReduceAttrs, perm: tuple[int, ...]) -> ReduceAttrs:
    return replace(attrs, axes=tuple(perm[a] for a in attrs.axes))


def prepare(attrs: ReduceAttrs, s: Specs) -> Mapping[str, Any]:
    """Prepares the axes, the shape of x with these axes of length 1, and the values per result."""
    x = s["x"]
    axes = reduced_axes(attrs, x)
    keepdims_shape = shape_with_keepdims(x.shape, axes)
    count = x.size // max(TensorSpec(keepdims_shape, x.dtype).size, 1)
    return {"axes": axes, "keepdims_shape": keepdims_shape, "count": count}
