"""BROADCAST_TO: x broadcast to a given shape.

dx is dy summed over the axes along which x was broadcast. Source: tf.broadcast_to.
"""

from collections.abc import Mapping

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.binary import reducer, sum_into
from odt.kernels.families.copies import Moves, copying
from odt.kernels.geometry.axes import moved_entries
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import Array, Kernel, Names, OpDef, Options, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef

Shape = tuple[int, ...]


def attrs(options: Options, statics: Mapping[str, Array]) -> Shape:
    return tuple(int(n) for n in np.ravel(statics["shape"]))


def infer(shape: Shape, s: Specs) -> Specs:
    x = s["x"]
    try:
        fits = np.broadcast_shapes(x.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(f"x must be broadcastable to shape, but got {shape}, x {x}")
    return {"y": TensorSpec(shape, x.dtype)}


def scale_batch(shape: Shape, s: Specs, times: int) -> Shape:
    """Scales the target shape with the batch of x."""
    grows = len(s["x"].shape) == len(shape) > 0 and s["x"].shape[0] == shape[0]
    return (shape[0] * times, *shape[1:]) if grows else shape


def mixes_samples(shape: Shape, s: Specs, batched: Names) -> bool:
    """Whether the batch does not stay axis 0, or changes its length."""
    x = s["x"].shape
    return bool(batched) and (len(x) != len(shape) or x[0] != shape[0])


def add_batch_axis(shape: Shape, samples: int) -> Shape:
    return (samples, *shape)


def forward(shape: Shape, *, x: Array, y: Array) -> Moves:
    yield np.broadcast_to(x, shape), y


def grad_x(
    shape: Shape, *, dy: Array, dx: Array, axes: tuple[int, ...], keepdims_shape: tuple[int, ...]
) -> None:
    sum_into(dy, dx, axes, keepdims_shape)


OP = OpDef(
    "BROADCAST_TO",
    inputs=("x", "shape"),
    infer=infer,
    forward=copying(forward, ("x",), ("y",)),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy",),
            writes=("dx",),
            prepare=reducer("x"),
            compiled=elementwise.sums("x"),
        )
    },
    static=("shape",),
    attrs=attrs,
    scale_batch=scale_batch,
    mixes_samples=mixes_samples,
    add_batch_axis=add_batch_axis,
    permute=moved_entries,
    quantized=QuantizedDef(versions={"INT8": 3, "INT16": 3}, values="moved"),
)
