"""Huber loss: the mean of (x − t)² / 2, linear from |x − t| = δ on, over a sample's elements.

x (N, …)    t like x    scale (1,) or (N,)    loss (1,)

loss = Σₙ scale · meanᵢ h(xₙᵢ − tₙᵢ)
h(e) = e² / 2               where |e| ≤ δ
     = δ (|e| − δ / 2)      elsewhere
dx = scale clip(x − t, −δ, δ) / D for D elements per sample

Source: Huber (1964), Robust estimation of a location parameter; δ = 1 as in Keras.
"""

from collections.abc import Mapping

import numpy as np

from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.kernels.families.difference_loss import difference, elements, infer
from odt.kernels.families.loss_operator import loss_operator
from odt.kernels.families.loss_scale import scale_gradient, scaled_sum
from odt.kernels.native import losses
from odt.kernels.rows.lossdef import LossDef
from odt.kernels.rows.opdef import Array, Options, Specs
from odt.kernels.rows.updatedef import HyperParameter


@dataclass(frozen=True, slots=True)
class HuberAttrs:
    """The distance δ at which the loss changes from quadratic to linear."""

    delta: float = 1.0

    def __post_init__(self) -> None:
        if not self.delta > 0:
            raise OptionError("loss", "`delta` of `huber` must be above 0", f"{self.delta:g}")


def attrs_of(options: Options, statics: Mapping[str, Array]) -> HuberAttrs:
    return HuberAttrs(**options)


def scratch(attrs: HuberAttrs, s: Specs) -> Specs:
    return {**difference(attrs, s), "inner": s["x"]}


def forward(
    attrs: HuberAttrs,
    *,
    x: Array,
    t: Array,
    scale: Array,
    loss: Array,
    difference: Array,
    inner: Array,
) -> None:
    """Computes h(e) = c (|e| − c / 2) with c = min(|e|, δ)."""
    np.subtract(x, t, out=difference)
    np.abs(difference, out=difference)
    np.minimum(difference, attrs.delta, out=inner)
    np.multiply(difference, inner, out=difference)
    np.multiply(inner, inner, out=inner)
    np.multiply(inner, 0.5, out=inner)
    np.subtract(difference, inner, out=difference)
    loss[0] = scaled_sum(difference, scale, elements(x))


def grad_x(attrs: HuberAttrs, *, x: Array, t: Array, scale: Array, dx: Array) -> None:
    np.subtract(x, t, out=dx)
    np.clip(dx, -attrs.delta, attrs.delta, out=dx)
    scale_gradient(dx, scale, elements(x))


LOSS = LossDef(
    op=loss_operator(
        "huber",
        infer,
        forward,
        grad_x,
        workspace=scratch,
        overwrites=("x", "t"),
        compiled=losses.HUBER,
        compiled_back=losses.HUBER_BACK,
        attrs=attrs_of,
    ),
    formula="mean of e² / 2 where |e| ≤ δ, else of δ (|e| − δ / 2), e = x − t",
    hyper_parameters=(HyperParameter("delta", "Error from which the loss is linear"),),
    place=5,
)
