"""Compiled copies of the parts of a tensor along an axis, in any dtype of four bytes."""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from odt.kernels.native.binding import bind, in_order
from odt.kernels.native.structs import TransposeShape
from odt.kernels.opdef import Array, Attrs, Compiled, Specs

Place = tuple[slice, ...]


def fits(attrs: Attrs, s: Specs) -> bool:
    return all(v.dtype.itemsize == 4 and v.size for v in s.values())


def copy_part(whole: Array, part: Array, where: Place, *, joins: bool) -> Callable[[], None]:
    """Copies a part to its place in the whole if `joins`, else the place to the part."""
    axis, first = len(where) - 1, where[-1].start
    inner, lines = prod(whole.shape[axis + 1 :]), prod(whole.shape[:axis])
    length, width = part.shape[axis] * inner, whole.shape[axis] * inner
    place = whole.reshape(-1, copy=False)[first * inner :]
    x, y = (length, width) if joins else (width, length)
    shape = TransposeShape(
        rank=0, lines=lines, length=length, x_line_stride=x, x_stride=1, y_line_stride=y
    )
    return bind("transpose", shape, *((part, place) if joins else (place, part)))


def join(attrs: Attrs, *, y: Array, at: tuple[Place, ...], **xs: Array) -> Callable[[], None]:
    return in_order([copy_part(y, xs[f"xs{k}"], p, joins=True) for k, p in enumerate(at)])


def of(prepare: Callable[[Attrs, Specs], Mapping[str, Any]]) -> Compiled:
    """Makes the compiled form of a concatenation; `prepare` returns the places `at`."""
    return Compiled(join, fits, prepare=prepare)


def back(k: int, prepare: Callable[[Attrs, Specs], Mapping[str, Any]]) -> Compiled:
    """Makes the compiled form of the gradient by the k-th part."""

    def part_of_dy(
        attrs: Attrs, *, dy: Array, at: tuple[Place, ...], **dxs: Array
    ) -> Callable[[], None]:
        return copy_part(dy, dxs[f"dxs{k}"], at[k], joins=False)

    return Compiled(part_of_dy, fits, prepare=prepare)
