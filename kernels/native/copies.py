"""Compiled copies between views of arrays, of any dtype of four bytes.

After merging axes, a copy is a batch of matrices that are copied or transposed.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from odt.kernels.native.binding import bind, in_order
from odt.kernels.native.structs import MAX_OUTER_AXES, TransposeShape
from odt.kernels.rows.opdef import Array, Attrs, Compiled, Specs

LINES = 64  # of one long row, so that threads can divide it
# (attrs, **arrays) → pairs (source, target) of views of equal shape.
Pairs = Callable[..., Iterable[tuple[Array, Array]]]


def merged_axes(source: Array, target: Array) -> list[tuple[int, int, int]]:
    """Returns (size, stride in the source, stride in the target) of the axes, in elements.

    Axes of length 1 are removed, and neighboring axes of the target that are neighbors in the
    source are merged. The axes are in the order of falling strides in the target.
    """
    merged: list[tuple[int, int, int]] = []
    strides = ((s // 4, t // 4) for s, t in zip(source.strides, target.strides, strict=True))
    axes = ((size, x, y) for size, (x, y) in zip(target.shape, strides, strict=True) if size > 1)
    for size, x, y in sorted(axes, key=lambda axis: -axis[2]):
        length = size
        if merged and merged[-1][1:] == (size * x, size * y):
            length *= merged.pop()[0]
        merged.append((length, x, y))
    return merged


def copy_shape(source: Array, target: Array) -> TransposeShape | None:
    """Returns the struct of a copy, or None if too many axes remain."""
    outer = merged_axes(source, target)
    # Lines are along the contiguous axis of the target: `length` elements, `x_stride` apart in the
    # source. Without such an axis, they are single elements.
    length, x_stride = 1, 1
    if outer and outer[-1][2] == 1:
        length, x_stride, _ = outer.pop()
    if not outer and length >= LINES**2 and length % LINES == 0:
        length //= LINES
        outer.append((LINES, length * x_stride, length))
    # The axis that counts the lines is the one that is contiguous in the source (a transpose), else
    # the last.
    inner = -1
    if x_stride != 1:
        inner = next((k for k, (_, x, _) in enumerate(outer) if x == 1), -1)
    lines, x_line_stride, y_line_stride = outer.pop(inner) if outer else (1, 1, length)
    if len(outer) > MAX_OUTER_AXES:
        return None
    shape = TransposeShape(
        rank=len(outer),
        lines=lines,
        length=length,
        x_line_stride=x_line_stride,
        x_stride=x_stride,
        y_line_stride=y_line_stride,
    )
    for k, (size, x, y) in enumerate(outer):
        shape.sizes[k], shape.x[k], shape.y[k] = size, x, y
    return shape


def copy(source: Array, target: Array) -> Callable[[], None]:
    """Returns a call that copies a view to another one; `copy_shape` must not be None."""
    assert target.size, "a compiled copy writes at least one value"
    # A call takes contiguous arrays: of a view, its first value. `...` keeps a scalar an array.
    first: Any = (*(slice(1),) * target.ndim, ...)
    starts = (a[first].reshape(-1, copy=False) for a in (source, target))
    return bind("transpose", copy_shape(source, target), *starts)


def compiled_copies(
    pairs: Pairs, names: tuple[str, ...], prepare: Callable[[Attrs, Specs], Mapping[str, Any]]
) -> Compiled:
    """Makes the compiled form of a kernel that copies each source to its target.

    Args:
        pairs: returns the views of the kernel's arrays, in the order of the copies.
        names: arrays of the kernel.
        prepare: as in Kernel.
    """

    def is_named(name: str) -> bool:
        return any(name == n or (n[-1] == "*" and name.startswith(n[:-1])) for n in names)

    def fits(attrs: Attrs, s: Specs) -> bool:
        specs = ((n, spec) for name, spec in s.items() for n in (name, f"d{name}"))
        arrays = {n: np.empty(spec.shape, spec.dtype) for n, spec in specs if is_named(n)}
        if any(a.itemsize != 4 or not a.size for a in arrays.values()):
            return False
        copies = pairs(attrs, **arrays, **prepare(attrs, s))
        return all(copy_shape(x, y) is not None for x, y in copies if y.size)

    def to_call(attrs: Attrs, **arrays: Any) -> Callable[[], None]:
        copies = pairs(attrs, **arrays)
        return in_order([copy(x, y) for x, y in copies if y.size])

    return Compiled(to_call, fits, prepare=prepare)
