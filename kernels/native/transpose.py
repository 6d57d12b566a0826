"""TRANSPOSE in compiled code: what is left of a permutation is matrices, turned or copied."""

import ctypes
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from odt.kernels.native.binding import bind
from odt.kernels.opdef import Array, Attrs, Compiled, Specs

OUTER = 4  # as in transpose.c


class TransposeShape(ctypes.Structure):
    """How x and y are walked, as in transpose.c; strides in elements."""

    _fields_ = [
        ("rank", ctypes.c_int64),
        *((name, ctypes.c_int64 * OUTER) for name in ("sizes", "x", "y")),
        *(
            (name, ctypes.c_int64)
            for name in ("lines", "length", "x_line_stride", "x_stride", "y_line_stride")
        ),
    ]

    def __init__(self, shape: tuple[int, ...], axes: Sequence[int]) -> None:
        """Of x's shape and the axes of x in y's order."""
        *outer, (length, x_step, _) = remaining(shape, axes) or [(1, 1, 1)]
        lines, x_line, y_line = 1, 1, length
        if outer:
            inner = next((k for k, (_, x, _) in enumerate(outer) if x == 1), -1)
            lines, x_line, y_line = outer.pop(inner)
        super().__init__(
            rank=len(outer),
            lines=lines,
            length=length,
            x_line_stride=x_line,
            x_stride=x_step,
            y_line_stride=y_line,
        )
        for k, (size, x, y) in enumerate(outer):
            self.sizes[k], self.x[k], self.y[k] = size, x, y


def remaining(shape: tuple[int, ...], axes: Sequence[int]) -> list[tuple[int, int, int]]:
    """(size, stride in x, stride in y) of the axes of y, as few as do.

    Axes of length 1 are none, and neighbours in x that stay neighbours are one.
    """
    found: list[tuple[int, int, int]] = []
    for k, axis in enumerate(axes):
        size, x = shape[axis], prod(shape[axis + 1 :])
        y = prod(shape[a] for a in axes[k + 1 :])
        if size == 1:
            continue
        if found and found[-1][1] == size * x:
            size *= found.pop()[0]
        found.append((size, x, y))
    return found


def fits(attrs: Attrs, s: Specs) -> bool:
    """Elements of four bytes, whatever they are: their bits are copied."""
    x = s["x"]
    if x.dtype.itemsize != 4 or not x.size:
        return False
    return len(remaining(x.shape, attrs.axes(x))) <= OUTER + 2


def _forward(attrs: Attrs, *, x: Array, y: Array, axes: tuple[int, ...]) -> Callable[[], None]:
    return bind("transpose", TransposeShape(x.shape, axes), x, y)


def _back(attrs: Attrs, *, dy: Array, dx: Array, axes: tuple[int, ...]) -> Callable[[], None]:
    places = sorted(range(len(axes)), key=axes.__getitem__)
    return bind("transpose", TransposeShape(dy.shape, places), dy, dx)


def of(prepare: Callable[[Attrs, Specs], Any]) -> tuple[Compiled, Compiled]:
    """The compiled forms, forward and back, of kernels that are given `axes`."""
    return Compiled(_forward, fits, prepare=prepare), Compiled(_back, fits, prepare=prepare)
