"""Elementwise operators: shape inference, workspace, and the row of unary operators."""

from collections.abc import Callable, Iterator

import numpy as np

from odt.errors import ShapeError
from odt.kernels.geometry.axes import same
from odt.kernels.rows.opdef import (
    TILE,
    Array,
    Attrs,
    Compiled,
    Kernel,
    OpDef,
    Specs,
    TensorSpec,
    no_attrs,
    no_specs,
)
from odt.kernels.rows.quantizeddef import QuantizedDef

BOOL = np.dtype(bool)


def same_as_x(attrs: Attrs, s: Specs) -> Specs:
    return {"y": s["x"]}


def number_like_x(attrs: Attrs, s: Specs) -> Specs:
    if s["x"].dtype.kind == "b":
        raise ShapeError(f"x must be a number, but got {s['x']}")
    return {"y": s["x"]}


def float_like_x(attrs: Attrs, s: Specs) -> Specs:
    if s["x"].dtype.kind != "f":
        raise ShapeError(f"x must be of a float type, but got {s['x']}")
    return {"y": s["x"]}


def bool_like_x(attrs: Attrs, s: Specs) -> Specs:
    if s["x"].dtype != BOOL:
        raise ShapeError(f"x must be bool, but got {s['x']}")
    return {"y": s["x"]}


def mask_like_y(attrs: Attrs, s: Specs) -> Specs:
    return {"mask": TensorSpec(s["y"].shape, BOOL)}


def masks_like_y(attrs: Attrs, s: Specs) -> Specs:
    mask = TensorSpec(s["y"].shape, BOOL)
    return {"mask": mask, "other": mask}


def part_like_y(attrs: Attrs, s: Specs) -> Specs:
    return {"part": s["y"]}


def part_and_mask(attrs: Attrs, s: Specs) -> Specs:
    return {"part": s["y"], "mask": TensorSpec(s["y"].shape, BOOL)}


def tiles(work: Array, mask: Array, *arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Yields flat tiles of the arrays, with slices of work and mask of the same length."""
    flat = [a.reshape(-1, copy=False) for a in arrays]
    for at in range(0, flat[0].size, TILE):
        pieces = [a[at : at + TILE] for a in flat]
        yield *pieces, work[:, : pieces[0].size], mask[: pieces[0].size]


# If backward reads y instead of x, y may overwrite x; dx may always overwrite dy.
IN_PLACE = frozenset({("y", "x")})
IN_PLACE_BACK = frozenset({("dx", "dy")})


def unary(
    name: str,
    forward: Callable[..., None],
    grad_x: Callable[..., None],
    reads: tuple[str, ...],
    *,
    over: tuple[str, ...] = (),
    infer: Callable[[Attrs, Specs], Specs] = float_like_x,
    attrs: Callable[..., Attrs] = no_attrs,
    workspace: Callable[[Attrs, Specs], Specs] = no_specs,
    back_workspace: Callable[[Attrs, Specs], Specs] = no_specs,
    compiled: Compiled | None = None,
    compiled_back: Compiled | None = None,
    quantized: QuantizedDef | None = None,
) -> OpDef:
    """Makes the row of an elementwise operator y = f(x); y may alias x.

    Args:
        reads: arrays that grad_x reads besides dy: x or y.
        over: arrays among dy and `reads` that dx may overwrite.
        workspace, back_workspace: workspace of forward and of grad_x.
        compiled, compiled_back: compiled form of forward and of grad_x.
    """
    back = frozenset(("dx", n) for n in over)
    return OpDef(
        name,
        inputs=("x",),
        infer=infer,
        forward=Kernel(
            forward,
            reads=("x",),
            writes=("y",),
            workspace=workspace,
            may_alias=IN_PLACE,
            compiled=compiled,
        ),
        grads={
            "x": Kernel(
                grad_x,
                reads=("dy", *reads),
                writes=("dx",),
                workspace=back_workspace,
                may_alias=back,
                compiled=compiled_back,
            )
        },
        attrs=attrs,
        permute=same,
        quantized=quantized,
    )
