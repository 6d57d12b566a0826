"""Operators that only move values: each value of y is one of x, or 0.

A row says which parts of y and of x hold the same values; forward copies them one way, the
gradient the other way.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from odt.errors import ShapeError
from odt.kernels.opdef import (
    Array,
    Attrs,
    Kernel,
    Names,
    OpDef,
    Options,
    Specs,
    TensorSpec,
    keeps_samples_apart,
)

# (attrs, x, y) → parts of x and parts of y that hold the same values, as views.
Parts = Callable[[Attrs, Array, Array], Iterator[tuple[Array, Array]]]


def moving(
    name: str,
    parts: Parts,
    infer: Callable[[Attrs, Specs], Specs],
    attrs: Callable[[Options, Mapping[str, Array]], Attrs],
    *,
    inputs: tuple[str, ...] = ("x",),
    mixes_samples: Callable[[Attrs, Specs, Names], bool] = keeps_samples_apart,
    add_batch_axis: Callable[[Attrs, int], Attrs] | None = None,
) -> OpDef:
    """The row of an operator whose other inputs determine how values move.

    Args:
        parts: no value of x or of y may be in two of them.
        inputs: x, and static ones.
    """

    def forward(attrs: Attrs, *, x: Array, y: Array) -> None:
        y.fill(0)
        for there, here in parts(attrs, x, y):
            np.copyto(here, there)

    def grad_x(attrs: Attrs, *, dy: Array, dx: Array) -> None:
        dx.fill(0)
        for there, here in parts(attrs, dx, dy):
            np.copyto(there, here)

    return OpDef(
        name,
        inputs=inputs,
        infer=infer,
        forward=Kernel(forward, reads=("x",), writes=("y",)),
        grads={"x": Kernel(grad_x, reads=("dy",), writes=("dx",))},
        static=inputs[1:],
        attrs=attrs,
        mixes_samples=mixes_samples,
        add_batch_axis=add_batch_axis,
    )


def block_attrs(options: Options, statics: Mapping[str, Array]) -> int:
    """The side of a block."""
    return int(options.get("block_size", 1))


def images(s: Specs) -> TensorSpec:
    x = s["x"]
    if len(x.shape) != 4:
        raise ShapeError(f"x must be (N, H, W, C), but got {x}")
    return x


def blocks(deep: Array, wide: Array, size: int) -> tuple[Array, Array]:
    """A batch (N, H, W, size²·C) and one (N, H·size, W·size, C), as blocks in the same order."""
    n, height, width, _ = deep.shape
    channels = wide.shape[3]
    apart = deep.reshape(n, height, width, size, size, channels, copy=False)
    whole = wide.reshape(n, height, size, width, size, channels, copy=False)
    return apart.transpose(0, 1, 3, 2, 4, 5), whole
