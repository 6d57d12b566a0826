"""BROADCAST_ARGS: the shape that results from broadcasting two shapes; no gradient.

a (P,), b (Q,) integers    y (max(P, Q),). Source: tf.broadcast_dynamic_shape.
"""

import numpy as np

from odt.errors import DataError, ShapeError
from odt.kernels.families.elementwise import BOOL
from odt.kernels.rows.opdef import Array, Kernel, Names, OpDef, Specs, TensorSpec


def infer(attrs: None, s: Specs) -> Specs:
    a, b = s["a"], s["b"]
    if len(a.shape) != 1 or len(b.shape) != 1 or a.dtype.kind != "i" or a.dtype != b.dtype:
        raise ShapeError(f"a and b must be lists of integers, but got a {a}, b {b}")
    return {"y": TensorSpec((max(a.shape[0], b.shape[0]),), a.dtype)}


def mixes_samples(attrs: None, s: Specs, batched: Names) -> bool:
    return bool(batched)


def masks(attrs: None, s: Specs) -> Specs:
    mask = TensorSpec(s["b"].shape, BOOL)
    return {"same": mask, "one": mask}


def forward(attrs: None, *, a: Array, b: Array, y: Array, same: Array, one: Array) -> None:
    y.fill(1)
    y[y.size - a.size :] = a
    tail = y[y.size - b.size :]
    np.copyto(tail, b, where=np.equal(tail, 1, out=one))
    np.logical_or(np.equal(tail, b, out=same), np.equal(b, 1, out=one), out=same)
    if not same.all():
        raise DataError(
            f"BROADCAST_ARGS: shapes must match from the last axis on, but got {a} and {b}"
        )


OP = OpDef(
    "BROADCAST_ARGS",
    inputs=("a", "b"),
    infer=infer,
    forward=Kernel(forward, reads=("a", "b"), writes=("y",), workspace=masks),
    grads={},
    stops=("a", "b"),
    mixes_samples=mixes_samples,
)
