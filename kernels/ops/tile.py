"""TILE: repeats x multiples[k] times along axis k.

dx sums dy over the copies of each value. Source: tf.tile.
"""

from collections.abc import Mapping

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.copies import Moves, copying
from odt.kernels.opdef import Array, Kernel, Names, OpDef, Options, Specs, TensorSpec

Multiples = tuple[int, ...]


def attrs(options: Options, statics: Mapping[str, Array]) -> Multiples:
    return tuple(int(m) for m in np.ravel(statics["multiples"]))


def infer(multiples: Multiples, s: Specs) -> Specs:
    x = s["x"]
    if len(multiples) != len(x.shape) or min(multiples, default=1) < 1:
        raise ShapeError(
            f"multiples must be 1 or more for each axis of x, but got {multiples}, x {x}"
        )
    shape = tuple(n * m for n, m in zip(x.shape, multiples, strict=True))
    return {"y": TensorSpec(shape, x.dtype)}


def mixes_samples(multiples: Multiples, s: Specs, batched: Names) -> bool:
    return bool(multiples) and multiples[0] != 1


def add_batch_axis(multiples: Multiples, samples: int) -> Multiples:
    return (1, *multiples)


def split_copies(multiples: Multiples, y: Array) -> Array:
    """Reshapes y to two axes for each axis of x: number of the copy, position in the copy."""
    pairs = zip(multiples, y.shape, strict=True)
    return y.reshape(tuple(k for m, n in pairs for k in (m, n // m)), copy=False)


def forward(multiples: Multiples, *, x: Array, y: Array) -> Moves:
    copies = split_copies(multiples, y)
    one = x.reshape(tuple(k for n in x.shape for k in (1, n)), copy=False)
    yield np.broadcast_to(one, copies.shape), copies


def grad_x(multiples: Multiples, *, dy: Array, dx: Array) -> None:
    np.sum(split_copies(multiples, dy), axis=tuple(range(0, 2 * dx.ndim, 2)), out=dx)


OP = OpDef(
    "TILE",
    inputs=("x", "multiples"),
    infer=infer,
    forward=copying(forward, ("x",), ("y",)),
    grads={"x": Kernel(grad_x, reads=("dy",), writes=("dx",))},
    static=("multiples",),
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=add_batch_axis,
)
