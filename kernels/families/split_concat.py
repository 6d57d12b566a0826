"""Split and concatenation along an axis: slices of the parts, and kernels."""

from collections.abc import Mapping
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from odt.errors import ShapeError
from odt.kernels.native import join as native
from odt.kernels.opdef import Array, Attrs, Kernel, Options, Specs

Places = tuple[tuple[slice, ...], ...]


def place(axis: int, rank: int) -> int:
    """Returns the axis counted from 0."""
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


def join(attrs: Attrs, *, y: Array, at: Places, **xs: Array) -> None:
    for k, where in enumerate(at):
        np.copyto(y[where], xs[f"xs{k}"])


def part_of_dy(k: int, attrs: Attrs, *, dy: Array, at: Places, **dxs: Array) -> None:
    np.copyto(dxs[f"dxs{k}"], dy[at[k]])


def grad_of_part(k: int, prepare: Any) -> Kernel:
    """Makes the kernel of the gradient of a concatenation by its k-th part."""
    run = partial(part_of_dy, k)
    compiled = native.back(k, prepare)
    return Kernel(run, reads=("dy",), writes=(f"dxs{k}",), prepare=prepare, compiled=compiled)


def cut(attrs: Attrs, *, x: Array, at: Places, **ys: Array) -> None:
    for k, where in enumerate(at):
        np.copyto(ys[f"ys{k}"], x[where])


def join_gradients(attrs: Attrs, *, dx: Array, at: Places, **dys: Array) -> None:
    for k, where in enumerate(at):
        np.copyto(dx[where], dys[f"dys{k}"])


def cutting(prepare: Any) -> tuple[Kernel, Mapping[str, Kernel]]:
    """Makes forward and gradient of an operator that splits x into ys*."""
    forward = Kernel(cut, reads=("x",), writes=("ys*",), prepare=prepare)
    return forward, {"x": Kernel(join_gradients, reads=("dys*",), writes=("dx",), prepare=prepare)}
