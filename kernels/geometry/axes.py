"""Adapts attributes that contain axis numbers when the axes of an operator's inputs change.

Either a batch axis is added before all others (core/lowering/batch_samples.py), or the axes are
permuted (core/lowering/passes/push_transposes.py): axis k of the inputs becomes axis perm[k].
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from odt.errors import ShapeError
from odt.kernels.rows.opdef import Attrs

T = TypeVar("T")


def same(attrs: Attrs, change: object) -> Attrs:
    """Returns attributes unchanged: they contain no axis, or axes counted from the last."""
    return attrs


def behind(axis: int) -> int:
    """Returns the number of an axis behind a new first axis; negative ones count from the last."""
    return axis + 1 if axis >= 0 else axis


def new_axis(axis: int, rank: int) -> int:
    """Returns the position, counted from 0, of an axis that is added to a tensor of this rank.

    Raises:
        ShapeError: if the axis is outside the result.
    """
    if not -rank - 1 <= axis <= rank:
        raise ShapeError(f"axis must be within −{rank + 1} … {rank}, but got {axis}")
    return axis % (rank + 1)


def later_axis(attrs: Attrs, samples: int) -> Attrs:
    """Adapts attrs.axis to a new leading axis."""
    return replace(attrs, axis=behind(attrs.axis))


def moved_axis(attrs: Attrs, perm: tuple[int, ...]) -> Attrs:
    """Adapts attrs.axis to permuted axes."""
    return replace(attrs, axis=perm[attrs.axis])


def moved_entries(entries: Sequence[T], perm: tuple[int, ...]) -> tuple[T, ...]:
    """Returns the entries, one for each axis, with entry k in the place perm[k]."""
    moved = dict(zip(perm, entries, strict=True))
    return tuple(moved[k] for k in range(len(perm)))
