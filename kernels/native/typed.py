"""Compiled kernels on values of several types: casts, comparisons, positions, row selections."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from odt.kernels.geometry.reduce_geometry import ReduceAttrs, prepare
from odt.kernels.native.binding import FOUND, Calls, Check, Run, bind, in_order
from odt.kernels.native.elementwise import (
    broadcast_strides,
    elementwise_shape,
    reduced_sizes,
)
from odt.kernels.native.structs import MAX_RANK
from odt.kernels.rows.opdef import Array, Attrs, Compiled, Specs, TensorSpec

FLOATS, TRUTHS = 0, 3  # numbers of types in src/typed.c, besides integers
EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, AND, OR = range(6)  # relations in src/typed_body.h
ADD, SUBTRACT, MULTIPLY, MINIMUM, MAXIMUM, FLOOR_DIVIDE, REMAINDER = range(7)  # operations there
FALSE = np.zeros(1, bool)


def has_number(dtype: np.dtype[Any]) -> bool:
    """Whether kernels know a type: float32, bool, and integers that fit into int64."""
    return dtype.kind in "bi" or dtype == np.float32 or (dtype.kind == "u" and dtype.itemsize < 8)


def number_of(dtype: np.dtype[Any]) -> int:
    """Returns the number of a type in src/typed.c."""
    if dtype.kind in "iu":
        return dtype.itemsize if dtype.kind == "i" else -dtype.itemsize
    return TRUTHS if dtype.kind == "b" else FLOATS


def fits(*names: str) -> Callable[[Attrs, Specs], bool]:
    """Makes a check that arrays are not empty, and of types that kernels know."""

    def check(attrs: Attrs, s: Specs) -> bool:
        return all(has_number(s[n].dtype) and s[n].size for n in names)

    return check


def _cast(attrs: Attrs, *, x: Array, y: Array) -> Calls:
    return bind("cast", x, y, x.size, number_of(x.dtype), number_of(y.dtype))


CAST = Compiled(_cast, fits("x", "y"))


def comparison(relation: int, *, swapped: bool = False) -> Compiled:
    """Makes the compiled form of y = a ∘ b, or y = b ∘ a."""

    def check(attrs: Attrs, s: Specs) -> bool:
        shapes = [s[n].shape for n in ("y", "a", "b")]
        return fits("a", "b", "y")(attrs, s) and len(broadcast_strides(*shapes)) <= MAX_RANK

    def to_call(attrs: Attrs, *, a: Array, b: Array, y: Array) -> Calls:
        return _compare(relation, b, a, y) if swapped else _compare(relation, a, b, y)

    return Compiled(to_call, check)


def _compare(relation: int, a: Array, b: Array, y: Array) -> Calls:
    shape = elementwise_shape(broadcast_strides(y.shape, a.shape, b.shape))
    return bind("compare", shape, y, a, b, number_of(a.dtype), relation)


def _logical_not(attrs: Attrs, *, x: Array, y: Array) -> Calls:
    return _compare(EQUAL, x, FALSE, y)


LOGICAL_NOT = Compiled(_logical_not, fits("x"))


def also_integers(
    floats: Compiled, operation: int, refuse: Callable[[Array], None] | None = None
) -> Compiled:
    """Makes the compiled form of y = a ∘ b for floats and integers.

    Args:
        floats: the form for floats.
        operation: the operation on integers.
        refuse: raises an error for values of an integer b that cannot be used.
    """

    def is_integer(attrs: Attrs, s: Specs) -> bool:
        shapes = [s[n].shape for n in ("y", "a", "b")]
        is_known = s["y"].dtype.kind in "iu" and fits("a", "b")(attrs, s)
        return is_known and len(broadcast_strides(*shapes)) <= MAX_RANK

    def check(attrs: Attrs, s: Specs) -> bool:
        return floats.fits(attrs, s) or is_integer(attrs, s)

    def to_call(
        attrs: Attrs, *, a: Array, b: Array, y: Array, **epilogue: Any
    ) -> Callable[[], None]:
        if y.dtype.kind == "f":
            return floats.bind(attrs, a=a, b=b, y=y, **epilogue)
        shape = elementwise_shape(broadcast_strides(y.shape, a.shape, b.shape))
        integers = bind("combine", shape, y, a, b, number_of(y.dtype), operation)
        return in_order([Check(partial(refuse, b)), integers]) if refuse else integers

    return replace(floats, bind=to_call, fits=check)


def also_other_types(
    floats: Compiled, condition_shape: Callable[[Specs], tuple[int, ...]]
) -> Compiled:
    """Makes the compiled form of SELECT for floats and for other types.

    Args:
        floats: the form for floats, with workspace `truths`.
        condition_shape: returns the shape of c that is broadcast to y.
    """

    def is_other(attrs: Attrs, s: Specs) -> bool:
        shapes = s["y"].shape, s["a"].shape, s["b"].shape, condition_shape(s)
        has_values = s["y"].dtype.itemsize <= 8 and s["y"].size > 0
        return has_values and len(broadcast_strides(*shapes)) <= MAX_RANK

    def check(attrs: Attrs, s: Specs) -> bool:
        return floats.fits(attrs, s) or is_other(attrs, s)

    def workspace(attrs: Attrs, s: Specs) -> Specs:
        return floats.workspace(attrs, s) if floats.fits(attrs, s) else {}

    def to_call(
        attrs: Attrs,
        *,
        c: Array,
        a: Array,
        b: Array,
        y: Array,
        shape: tuple[int, ...],
        truths: Array | None = None,
    ) -> Callable[[], None]:
        if truths is not None:
            return floats.bind(attrs, c=c, a=a, b=b, y=y, shape=shape, truths=truths)
        axes = elementwise_shape(broadcast_strides(y.shape, a.shape, b.shape, shape))
        return bind("choose", axes, y, a, b, c, y.itemsize)

    return replace(floats, bind=to_call, fits=check, workspace=workspace)


def clear(attrs: Attrs, **arrays: Array) -> Calls:
    """Returns a compiled call that fills an array with 0."""
    (a,) = arrays.values()
    return bind("clear", a, a.nbytes)


def sizes_around(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Returns the sizes of the axes before, of, and after an axis."""
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def arg_extreme(*, is_min: bool) -> Compiled:
    """Makes the compiled form of the index of the largest or smallest x; attrs has the axis."""

    def to_call(attrs: Any, *, x: Array, y: Array) -> Calls:
        sizes = sizes_around(x.shape, attrs.place(TensorSpec(x.shape, x.dtype)))
        return bind("arg_extreme", x, y, *sizes, is_min, number_of(x.dtype), number_of(y.dtype))

    return Compiled(to_call, fits("x", "y"))


def one_hot(axis: Callable[[Attrs, int], int]) -> Compiled:
    """Makes the compiled form of ONE_HOT.

    Args:
        axis: (attrs, axes of the indices) → position of the new axis.
    """

    def to_call(attrs: Attrs, *, indices: Array, on: Array, off: Array, y: Array) -> Calls:
        sizes = sizes_around(y.shape, axis(attrs, indices.ndim))
        types = number_of(indices.dtype), y.itemsize
        return bind("one_hot", indices, y, on, off, *sizes, *types)

    def check(attrs: Attrs, s: Specs) -> bool:
        return fits("indices")(attrs, s) and s["y"].size > 0 and s["y"].dtype.itemsize <= 8

    return Compiled(to_call, check)


def any_or_all(*, is_all: bool) -> Compiled:
    """Makes the compiled form of REDUCE_ANY or REDUCE_ALL."""

    def to_call(attrs: ReduceAttrs, *, x: Array, y: Array, **geometry: Any) -> Calls:
        sizes = reduced_sizes(attrs, TensorSpec(x.shape, x.dtype))
        assert sizes is not None, "fits is false"
        return bind("any_or_all", x, y, *sizes, is_all)

    def check(attrs: ReduceAttrs, s: Specs) -> bool:
        return s["x"].size > 0 and reduced_sizes(attrs, s["x"]) is not None

    return Compiled(to_call, check, prepare=prepare)


def row_extent(axes: int) -> Mapping[str, TensorSpec]:
    """Returns workspace for the least and the most index of each axis that indices index."""
    return {"extent": TensorSpec((axes, 2), np.dtype(np.int64))}


def check_extent(
    extent: Array, sizes: Sequence[int], error: Callable[[int, int, int], Exception]
) -> Check:
    """Returns a check of indices.

    Args:
        extent: (axes, 2) int64, the least and the most index of each axis.
        sizes: sizes of the axes that they index.
        error: (number of an axis, least, most) → the error for indices outside of it.
    """
    noted = np.zeros(extent.shape, np.int64)

    def check() -> None:
        extents: Any = noted.tolist()
        for k, (size, (least, most)) in enumerate(zip(sizes, extents, strict=False)):
            if least < 0 or most >= size:
                noted.fill(0)
                raise error(k, least, most)

    limits = np.array(sizes, np.int64)
    return Check(check, bind("note_extent", extent, limits, noted, limits.size, FOUND))


def find_rows(indices: Array, sizes: tuple[int, ...], at: Array, extent: Array) -> Run:
    """Returns a call that fills `at` with the row that each index tuple selects.

    Args:
        indices: (…, K), K axes of a table.
        sizes: of these axes.
        at: (…,) int64.
        extent: as in `check_extent`.
    """
    lead = np.array(sizes, np.int64)
    return bind(
        "find_rows", indices, at, extent, lead, at.size, lead.size, number_of(indices.dtype)
    )


def find_slices(indices: Array, entries: int, at: Array, extent: Array) -> Run:
    """Returns a call that fills `at` with the rows that indices select.

    Args:
        indices: (groups, n).
        entries: rows of a table, which there is for each group and repeat.
        at: (groups, repeats, n) int64.
        extent: as in `check_extent`.
    """
    return bind("find_slices", indices, at, extent, *at.shape, entries, number_of(indices.dtype))
