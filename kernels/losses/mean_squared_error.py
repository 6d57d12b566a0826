"""Mean squared error: a sample's loss is the mean of (x − t)² over its elements.

x (N, …)    t like x    scale (1,)    loss (1,)

loss = scale · Σₙ meanᵢ (xₙᵢ − tₙᵢ)²        dx = 2 scale (x − t) / D, D elements a sample

Source: onert's MSE, which is Keras' for sum_over_batch_size (scale = 1/N); with sum (scale = 1)
a sample still counts with its mean.
"""

import numpy as np

from odt.errors import ShapeError
from odt.kernels.lossdef import LossDef
from odt.kernels.opdef import Array, Kernel, OpDef, Specs, TensorSpec


def infer(attrs: None, s: Specs) -> Specs:
    if s["t"] != s["x"] or not s["x"].shape:
        raise ShapeError(f"t must be like x, (N, …), but got x {s['x']}, t {s['t']}")
    return {"loss": TensorSpec((1,), s["x"].dtype)}


def difference(attrs: None, s: Specs) -> Specs:
    return {"difference": s["x"]}


def forward(
    attrs: None, *, x: Array, t: Array, scale: Array, loss: Array, difference: Array
) -> None:
    np.subtract(x, t, out=difference)
    flat = difference.reshape(-1, copy=False)
    elements = x.size // x.shape[0]
    loss[0] = np.dot(flat, flat) * (scale[0] / elements)


def grad_x(attrs: None, *, x: Array, t: Array, scale: Array, dx: Array) -> None:
    np.subtract(x, t, out=dx)
    np.multiply(dx, scale[0] * 2 / (x.size // x.shape[0]), out=dx)


LOSS = LossDef(
    op=OpDef(
        "mean_squared_error",
        inputs=("x", "t", "scale"),
        infer=infer,
        forward=Kernel(forward, reads=("x", "t", "scale"), writes=("loss",), workspace=difference),
        grads={
            "x": Kernel(
                grad_x,
                reads=("x", "t", "scale"),
                writes=("dx",),
                may_alias=frozenset({("dx", "x"), ("dx", "t")}),
            )
        },
        stops=("t", "scale"),
        outputs=("loss",),
    ),
    formula="mean of (x − t)²",
    words=("mse",),
    onert=1,
    place=3,
)
