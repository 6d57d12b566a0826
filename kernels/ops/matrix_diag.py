"""MATRIX_DIAG: square matrices with given diagonals, and zeros elsewhere.

x (…, K)    y (…, K, K)

dx is the diagonal of dy. Source: tf.linalg.diag.
"""

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.diagonal import diagonal
from odt.kernels.geometry.axes import same
from odt.kernels.rows.opdef import Array, Kernel, Names, OpDef, Specs, TensorSpec


def infer(attrs: None, s: Specs) -> Specs:
    x = s["x"]
    if not x.shape:
        raise ShapeError(f"x must have an axis or more, but got {x}")
    return {"y": TensorSpec((*x.shape, x.shape[-1]), x.dtype)}


def mixes_samples(attrs: None, s: Specs, batched: Names) -> bool:
    return len(s["x"].shape) == 1


def forward(attrs: None, *, x: Array, y: Array) -> None:
    y.fill(0)
    np.copyto(diagonal(y), x)


def grad_x(attrs: None, *, dy: Array, dx: Array) -> None:
    np.copyto(dx, diagonal(dy))


OP = OpDef(
    "MATRIX_DIAG",
    inputs=("x",),
    infer=infer,
    forward=Kernel(forward, reads=("x",), writes=("y",)),
    grads={"x": Kernel(grad_x, reads=("dy",), writes=("dx",))},
    mixes_samples=mixes_samples,
    add_batch_axis=same,
)
