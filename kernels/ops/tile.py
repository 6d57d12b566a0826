"""TILE: repeats x multiples[k] times along axis k.

dx sums dy over the copies of each value. Source: tf.tile.
"""

from collections.abc import Callable, Mapping

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.copies import Moves, copying
from odt.kernels.geometry.axes import moved_entries
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import Array, Compiled, Kernel, Names, OpDef, Options, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef

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


def split(multiples: Multiples, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns two axes for each axis of y: number of the copy, position in the copy."""
    pairs = zip(multiples, shape, strict=True)
    return tuple(k for m, n in pairs for k in (m, n // m))


def copies(multiples: Multiples, y: Array) -> Array:
    """Reshapes y to the axes of `split`."""
    return y.reshape(split(multiples, y.shape), copy=False)


def one_copy(x: Array) -> Array:
    return copies((1,) * x.ndim, x)


def forward(multiples: Multiples, *, x: Array, y: Array) -> Moves:
    target = copies(multiples, y)
    yield np.broadcast_to(one_copy(x), target.shape), target


def grad_x(multiples: Multiples, *, dy: Array, dx: Array) -> None:
    np.sum(copies(multiples, dy), axis=tuple(range(0, 2 * dx.ndim, 2)), out=dx)


def call_grad_x(multiples: Multiples, *, dy: Array, dx: Array) -> Callable[[], None]:
    return elementwise.call("scale", one_copy(dx), (copies(multiples, dy),))


def fits_grad_x(multiples: Multiples, s: Specs) -> bool:
    x, y = s["x"], s["y"]
    single = TensorSpec(split((1,) * len(x.shape), x.shape), x.dtype)
    several = TensorSpec(split(multiples, y.shape), y.dtype)
    return elementwise.fits("x", "y")(multiples, {"x": single, "y": several})


OP = OpDef(
    "TILE",
    inputs=("x", "multiples"),
    infer=infer,
    forward=copying(forward, ("x",), ("y",)),
    grads={
        "x": Kernel(
            grad_x, reads=("dy",), writes=("dx",), compiled=Compiled(call_grad_x, fits_grad_x)
        )
    },
    static=("multiples",),
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=add_batch_axis,
    permute=moved_entries,
    quantized=QuantizedDef(versions={"INT8": 3}, int8=True, same="output", values="moved"),
)
