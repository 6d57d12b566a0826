"""MATRIX_SET_DIAG: the matrices x with given diagonals in place of their own.

x, y (…, M, N)    diagonal (…, K), where K is the smaller of M and N

dx is dy with zeros in the diagonal; the gradient by diagonal is the diagonal of dy.
Source: tf.linalg.set_diag.
"""

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.diagonal import diagonal as diagonal_of
from odt.kernels.geometry.axes import same
from odt.kernels.rows.opdef import Array, Kernel, Names, OpDef, Specs, TensorSpec


def infer(attrs: None, s: Specs) -> Specs:
    x, diagonal = s["x"], s["diagonal"]
    shape = x.shape
    if len(shape) < 2 or diagonal != TensorSpec((*shape[:-2], min(shape[-2:])), x.dtype):
        raise ShapeError(f"diagonal must be that of matrices x, but got diagonal {diagonal}, x {x}")
    return {"y": x}


def mixes_samples(attrs: None, s: Specs, batched: Names) -> bool:
    return len(s["x"].shape) == 2


def forward(attrs: None, *, x: Array, diagonal: Array, y: Array) -> None:
    np.copyto(y, x)
    np.copyto(diagonal_of(y), diagonal)


def grad_x(attrs: None, *, dy: Array, dx: Array) -> None:
    np.copyto(dx, dy)
    diagonal_of(dx).fill(0)


def grad_diagonal(attrs: None, *, dy: Array, ddiagonal: Array) -> None:
    np.copyto(ddiagonal, diagonal_of(dy))


OP = OpDef(
    "MATRIX_SET_DIAG",
    inputs=("x", "diagonal"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x", "diagonal"),
        writes=("y",),
        may_alias=frozenset({("y", "x")}),
    ),
    grads={
        "x": Kernel(grad_x, reads=("dy",), writes=("dx",), may_alias=frozenset({("dx", "dy")})),
        "diagonal": Kernel(grad_diagonal, reads=("dy",), writes=("ddiagonal",)),
    },
    mixes_samples=mixes_samples,
    add_batch_axis=same,
)
