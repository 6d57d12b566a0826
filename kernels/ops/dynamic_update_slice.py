"""DYNAMIC_UPDATE_SLICE: x with a block replaced by `update`, which begins at `start`.

x, y (D₁, …, D_K)    update (U₁, …, U_K)    start (K) of integers

A start is clamped to 0 … D − U, so that the block is inside x. dx is dy with zeros in the block,
and dupdate is the block of dy. With a separate axis for samples, all samples have the same start,
or each has its own. Source: dynamic_update_slice in the StableHLO specification.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from odt.errors import ShapeError
from odt.kernels.rows.opdef import Array, Kernel, Names, OpDef, Specs


def infer(samples: int | None, s: Specs) -> Specs:
    x, update, start = s["x"], s["update"], s["start"]
    lead = () if samples is None else (samples,)
    whole, block = x.shape[len(lead) :], update.shape[len(lead) :]
    has_axes = len(block) == len(whole) > 0
    inside = has_axes and all(n <= size for n, size in zip(block, whole, strict=True))
    inside = inside and x.shape == (*lead, *whole) and update.shape == (*lead, *block)
    is_shared = start.shape == (len(whole),)
    is_per_sample = start.shape[:1] == lead and start.size == len(whole) * (samples or 0)
    if (
        not inside
        or not (is_shared or is_per_sample)
        or start.dtype.kind != "i"
        or x.dtype != update.dtype
    ):
        raise ShapeError(
            f"update must be a block of x, and start must hold an integer for each axis, "
            f"but got update {update}, x {x}, start {start}"
        )
    return {"y": x}


def mixes_samples(samples: int | None, s: Specs, batched: Names) -> bool:
    if samples is not None:
        return False
    return "start" in batched or s["x"].shape[0] != s["update"].shape[0]


def prepare(samples: int | None, s: Specs) -> Mapping[str, Any]:
    return {"sizes": s["update"].shape}


def blocks(samples: int | None, x: Array, start: Array, sizes: tuple[int, ...]) -> Iterator[Array]:
    """Yields the block of x, or that of each sample."""
    if samples is None:
        x, sizes = x[np.newaxis], (1, *sizes)
    starts = start.reshape(-1, x.ndim - 1, copy=False)
    for k in range(len(x)):
        # There is one start, or one for each sample.
        begin = np.clip(starts[k % len(starts)], 0, np.subtract(x.shape[1:], sizes[1:]))
        at: Any = (k, *(slice(b, b + n) for b, n in zip(begin, sizes[1:], strict=True)))
        yield x[at]


def forward(
    samples: int | None,
    *,
    x: Array,
    update: Array,
    start: Array,
    y: Array,
    sizes: tuple[int, ...],
) -> None:
    np.copyto(y, x)
    updates = update[np.newaxis] if samples is None else update
    for block, new in zip(blocks(samples, y, start, sizes), updates, strict=True):
        np.copyto(block, new)


def grad_x(
    samples: int | None, *, dy: Array, start: Array, dx: Array, sizes: tuple[int, ...]
) -> None:
    np.copyto(dx, dy)
    for block in blocks(samples, dx, start, sizes):
        block.fill(0)


def grad_update(
    samples: int | None, *, dy: Array, start: Array, dupdate: Array, sizes: tuple[int, ...]
) -> None:
    updates = dupdate[np.newaxis] if samples is None else dupdate
    for block, new in zip(blocks(samples, dy, start, sizes), updates, strict=True):
        np.copyto(new, block)


def add_batch_axis(attrs: None, samples: int) -> int:
    return samples


OP = OpDef(
    "DYNAMIC_UPDATE_SLICE",
    inputs=("x", "update", "start"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x", "update", "start"),
        writes=("y",),
        may_alias=frozenset({("y", "x")}),
        prepare=prepare,
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "start"),
            writes=("dx",),
            may_alias=frozenset({("dx", "dy")}),
            prepare=prepare,
        ),
        "update": Kernel(grad_update, reads=("dy", "start"), writes=("dupdate",), prepare=prepare),
    },
    stops=("start",),
    mixes_samples=mixes_samples,
    add_batch_axis=add_batch_axis,
)
