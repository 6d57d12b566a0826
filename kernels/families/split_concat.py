"""Split and concatenation along an axis: slices of the parts, and kernels."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any

from odt.errors import ShapeError
from odt.kernels.families.copies import Moves, Prepare, copying
from odt.kernels.rows.opdef import Array, Attrs, Kernel, Options, Specs

Places = tuple[tuple[Any, ...], ...]


def place(axis: int, rank: int) -> int:
    """Returns the axis counted from 0.

    Raises:
        ShapeError: if there is no such axis.
    """
    if not -rank <= axis < rank:
        raise ShapeError(f"axis must be within −{rank} … {rank - 1}, but got {axis}")
    return axis % rank


def check_outputs(name: str, parts: int, options: Options) -> None:
    """Raises ShapeError unless the option equals the number of outputs in the file."""
    listed = options.get("output_types")
    if listed is not None and len(listed) != parts:
        raise ShapeError(f"{name} must be the number of outputs, {len(listed)}, but got {parts}")


def places(axis: int, sizes: tuple[int, ...]) -> Places:
    """Returns the index of each part in the whole, from the sizes along the axis."""
    ends = accumulate(sizes)
    before = (slice(None),) * axis
    return tuple((*before, slice(end - n, end)) for n, end in zip(sizes, ends, strict=True))


def numbered(stem: str, s: Specs) -> list[str]:
    """Returns the names xs0, xs1, … of a variadic input, in order."""
    count = 0
    while f"{stem}{count}" in s:
        count += 1
    return [f"{stem}{k}" for k in range(count)]


def join(attrs: Attrs, *, y: Array, at: Places, **xs: Array) -> Moves:
    return ((xs[f"xs{k}"], y[where]) for k, where in enumerate(at))


def part_of_dy(k: int, attrs: Attrs, *, dy: Array, at: Places, **dxs: Array) -> Moves:
    return ((dy[at[k]], dx) for dx in dxs.values())


def cut(attrs: Attrs, *, x: Array, at: Places, **ys: Array) -> Moves:
    return ((x[where], ys[f"ys{k}"]) for k, where in enumerate(at))


def join_gradients(attrs: Attrs, *, dx: Array, at: Places, **dys: Array) -> Moves:
    return ((dys[f"dys{k}"], dx[where]) for k, where in enumerate(at))


def concatenating(prepare: Prepare) -> tuple[Kernel, Callable[[int], Kernel]]:
    """Makes forward and gradients of an operator that joins xs*; `prepare` returns places `at`."""

    def grad(k: int) -> Kernel:
        return copying(partial(part_of_dy, k), ("dy",), (f"dxs{k}",), prepare)

    return copying(join, ("xs*",), ("y",), prepare), grad


def cutting(prepare: Prepare) -> tuple[Kernel, Mapping[str, Kernel]]:
    """Makes forward and gradient of an operator that splits x into ys*."""

    def is_cut_in_memory(attrs: Attrs, s: Specs) -> bool:
        axis = place(attrs.axis, len(s["x"].shape))
        return math.prod(s["x"].shape[:axis]) == 1

    forward = replace(copying(cut, ("x",), ("ys*",), prepare), cuts=is_cut_in_memory)
    return forward, {"x": copying(join_gradients, ("dys*",), ("dx",), prepare)}
