"""Mean squared error: the mean of (x − t)² over the elements of a sample.

x (N, …)    t like x    scale (1,) or (N,)    loss (1,)

loss = Σₙ scale · meanᵢ (xₙᵢ − tₙᵢ)²        dx = 2 scale (x − t) / D for D elements per sample

Source: onert's MSE, which equals Keras' for sum_over_batch_size (scale = 1/N). With sum (scale =
    1), the loss is the sum of the samples' means.
"""

import numpy as np

from odt.kernels.families.constant_loss import variance
from odt.kernels.families.difference_loss import difference, elements, infer
from odt.kernels.families.loss_operator import loss_operator
from odt.kernels.families.loss_scale import scale_gradient, scaled_sum
from odt.kernels.native import losses
from odt.kernels.rows.lossdef import LossDef
from odt.kernels.rows.opdef import Array


def forward(
    attrs: None, *, x: Array, t: Array, scale: Array, loss: Array, difference: Array
) -> None:
    np.subtract(x, t, out=difference)
    if scale.size == 1:
        flat = difference.reshape(-1, copy=False)
        loss[0] = np.dot(flat, flat) * (scale[0] / elements(x))
        return
    np.multiply(difference, difference, out=difference)
    loss[0] = scaled_sum(difference, scale, elements(x))


def grad_x(attrs: None, *, x: Array, t: Array, scale: Array, dx: Array) -> None:
    np.subtract(x, t, out=dx)
    scale_gradient(dx, scale, elements(x) / 2)


LOSS = LossDef(
    op=loss_operator(
        "mean_squared_error",
        infer,
        forward,
        grad_x,
        workspace=difference,
        overwrites=("x", "t"),
        compiled=losses.SQUARED_ERROR,
        compiled_back=losses.SQUARED_ERROR_BACK,
    ),
    formula="mean of (x − t)²",
    constant_loss=variance,
    words=("mse",),
    onert=1,
    place=3,
)
