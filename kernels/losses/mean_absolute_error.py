"""Mean absolute error: the mean of |x − t| over the elements of a sample.

x (N, …)    t like x    scale (1,) or (N,)    loss (1,)

loss = Σₙ scale · meanᵢ |xₙᵢ − tₙᵢ|        dx = scale sign(x − t) / D for D elements per sample

Source: Keras' mean_absolute_error; the gradient is 0 where x = t, as in torch.nn.L1Loss.
"""

import numpy as np

from odt.kernels.families.constant_loss import absolute_deviation
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
    np.abs(difference, out=difference)
    loss[0] = scaled_sum(difference, scale, elements(x))


def grad_x(attrs: None, *, x: Array, t: Array, scale: Array, dx: Array) -> None:
    np.subtract(x, t, out=dx)
    np.sign(dx, out=dx)
    scale_gradient(dx, scale, elements(x))


LOSS = LossDef(
    op=loss_operator(
        "mean_absolute_error",
        infer,
        forward,
        grad_x,
        workspace=difference,
        overwrites=("x", "t"),
        compiled=losses.ABSOLUTE_ERROR,
        compiled_back=losses.ABSOLUTE_ERROR_BACK,
    ),
    formula="mean of |x − t|",
    constant_loss=absolute_deviation,
    words=("mae",),
    place=4,
)
