"""FILL: a tensor of a given shape with one value; the gradient by the value is the sum of dy.

Source: tf.fill.
"""

from collections.abc import Mapping

import numpy as np

from odt.errors import ShapeError
from odt.kernels.rows.opdef import Array, Kernel, Names, OpDef, Options, Specs, TensorSpec

Shape = tuple[int, ...]


def attrs(options: Options, statics: Mapping[str, Array]) -> Shape:
    return tuple(int(n) for n in np.ravel(statics["dims"]))


def infer(shape: Shape, s: Specs) -> Specs:
    value = s["value"]
    if value.size != 1 or min(shape, default=0) < 0:
        raise ShapeError(
            f"value must be one number, and dims 0 or more, but got {value} and {shape}"
        )
    return {"y": TensorSpec(shape, value.dtype)}


def mixes_samples(shape: Shape, s: Specs, batched: Names) -> bool:
    return bool(batched)


def forward(shape: Shape, *, value: Array, y: Array) -> None:
    y.fill(value.flat[0])


def grad_value(shape: Shape, *, dy: Array, dvalue: Array) -> None:
    dvalue.fill(np.sum(dy))


OP = OpDef(
    "FILL",
    inputs=("dims", "value"),
    infer=infer,
    forward=Kernel(forward, reads=("value",), writes=("y",)),
    grads={"value": Kernel(grad_value, reads=("dy",), writes=("dvalue",))},
    static=("dims",),
    attrs=attrs,
    mixes_samples=mixes_samples,
)
