"""Custom losses in Python: two functions of targets and outputs."""

from collections.abc import Callable
from typing import Any

import numpy as np

from odt.errors import OptionError
from odt.kernels.families.difference_loss import infer
from odt.kernels.families.loss_scale import scale_gradient, scaled_sum
from odt.kernels.rows.lossdef import LossDef
from odt.kernels.rows.opdef import Array, Kernel, OpDef

Function = Callable[[Array, Array], Any]


def plugin_loss(name: str, value: Function, gradient: Function) -> LossDef:
    """Makes the row of a loss.

    Args:
        name: name in messages and checkpoints.
        value: (targets, outputs) → the loss of each sample (N,), or of each position (N, …).
        gradient: (targets, outputs) → the derivatives of these losses by the outputs.
    """
    positions: dict[tuple[int, ...], int] = {}  # shape of a sample's outputs → number of its losses

    def forward(attrs: None, *, x: Array, t: Array, scale: Array, loss: Array) -> None:
        terms = np.array(value(t, x), x.dtype)
        if terms.ndim == 0 or len(terms) != len(x):
            rule = f"`{name}` must give a loss for each of {len(x)} samples"
            raise OptionError("loss", rule, f"the shape {terms.shape}")
        if terms.size % scale.size:
            rule = f"`{name}` must give a loss for each position to have weights of positions"
            raise OptionError("loss", rule, f"the shape {terms.shape}")
        positions[x.shape[1:]] = terms.size // len(x)
        loss[0] = scaled_sum(terms, scale, positions[x.shape[1:]])

    def grad_x(attrs: None, *, x: Array, t: Array, scale: Array, dx: Array) -> None:
        result = np.asarray(gradient(t, x))
        if result.shape != x.shape:
            rule = f"the gradient of `{name}` must have the shape of the outputs, {x.shape}"
            raise OptionError("loss", rule, result.shape)
        np.copyto(dx, result)
        # The forward pass, which precedes, has counted them; the function may be expensive.
        scale_gradient(dx, scale, positions[x.shape[1:]])

    reads = ("x", "t", "scale")
    op = OpDef(
        name,
        inputs=reads,
        infer=infer,
        forward=Kernel(forward, reads=reads, writes=("loss",)),
        grads={"x": Kernel(grad_x, reads=reads, writes=("dx",))},
        stops=("t", "scale"),
        outputs=("loss",),
    )
    return LossDef(op, formula="a custom function")
