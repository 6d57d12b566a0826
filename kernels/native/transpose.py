"""Compiled TRANSPOSE: after merging axes, a permutation is a batch of transposes or copies."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from odt.kernels.native.binding import bind
from odt.kernels.native.structs import MAX_OUTER_AXES, TransposeShape
from odt.kernels.opdef import Array, Attrs, Compiled, Specs


def transpose_shape(shape: tuple[int, ...], axes: Sequence[int]) -> TransposeShape:
    """Returns the struct of a transpose, from the shape of x and the axes of x in y's order."""
    *outer, (length, x_stride, _) = remaining(shape, axes) or [(1, 1, 1)]
    lines, x_line_stride, y_line_stride = 1, 1, length
    if outer:
        inner = next((k for k, (_, x, _) in enumerate(outer) if x == 1), -1)
        lines, x_line_stride, y_line_stride = outer.pop(inner)
    shape_struct = TransposeShape(
        rank=len(outer),
        lines=lines,
        length=length,
        x_line_stride=x_line_stride,
        x_stride=x_stride,
        y_line_stride=y_line_stride,
    )
    for k, (size, x, y) in enumerate(outer):
        shape_struct.sizes[k], shape_struct.x[k], shape_struct.y[k] = size, x, y
    return shape_struct


def remaining(shape: tuple[int, ...], axes: Sequence[int]) -> list[tuple[int, int, int]]:
    """Returns (size, stride in x, stride in y) of the axes of y.

    Axes of length 1 are removed, and neighbouring axes of x that stay neighbours are merged.
    """
    merged: list[tuple[int, int, int]] = []
    for k, axis in enumerate(axes):
        size, x = shape[axis], prod(shape[axis + 1 :])
        y = prod(shape[a] for a in axes[k + 1 :])
        if size == 1:
            continue
        if merged and merged[-1][1] == size * x:
            size *= merged.pop()[0]
        merged.append((size, x, y))
    return merged


def fits(attrs: Attrs, s: Specs) -> bool:
    """Whether elements have four bytes, in any dtype: bits are copied."""
    x = s["x"]
    if x.dtype.itemsize != 4 or not x.size:
        return False
    return len(remaining(x.shape, attrs.axes(x))) <= MAX_OUTER_AXES + 2


def _forward(attrs: Attrs, *, x: Array, y: Array, axes: tuple[int, ...]) -> Callable[[], None]:
    return bind("transpose", transpose_shape(x.shape, axes), x, y)


def _back(attrs: Attrs, *, dy: Array, dx: Array, axes: tuple[int, ...]) -> Callable[[], None]:
    places = sorted(range(len(axes)), key=axes.__getitem__)
    return bind("transpose", transpose_shape(dy.shape, places), dy, dx)


def of(prepare: Callable[[Attrs, Specs], Any]) -> tuple[Compiled, Compiled]:
    """Makes the compiled forms, forward and backward; `prepare` returns `axes`."""
    return Compiled(_forward, fits, prepare=prepare), Compiled(_back, fits, prepare=prepare)
