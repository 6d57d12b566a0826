"""Binary focal loss: binary cross-entropy times (1 − q)^γ, q the probability of the target.

x (N, …, K)    t like x    scale (1,) or (R,), R runs of samples    loss (1,)

q = t p + (1 − t)(1 − p) is the target's probability, m = 1 − q, and b the binary cross-entropy.
From logits: p = 1 / (1 + e⁻ˣ), finite for any finite x;
    dx = scale a m^γ (γ (1 − 2t) p (1 − p) b / m + p − t)
From probabilities: p = x, but at least 1e-7 and at most 1 − 1e-7;
    dx = scale a m^γ (γ (1 − 2t) b / m + (p − t) / (p (1 − p))), and 0 where x is not p
a = t α + (1 − t)(1 − α) with class balancing, else 1. Both are divided as in the binary
cross-entropy. Label smoothing first moves t towards 1/2.

Source: Lin et al. (2017), Focal Loss for Dense Object Detection; defaults and epsilon of Keras'
BinaryFocalCrossentropy.
"""

from collections.abc import Mapping

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.families.label_smoothing import LABEL_SMOOTHING, smoothed, smoothing_workspace
from odt.kernels.families.loss_operator import loss_operator
from odt.kernels.families.loss_scale import scale_gradient, scaled_sum
from odt.kernels.geometry.softmax_geometry import TINY
from odt.kernels.losses.binary_crossentropy import (
    MAX_PROBABILITY,
    MIN_PROBABILITY,
    cross_entropies,
    infer,
    prepare,
    unit_interval,
)
from odt.kernels.losses.categorical_focal_crossentropy import GAMMA
from odt.kernels.native import focal_losses
from odt.kernels.ops import logistic
from odt.kernels.rows.lossdef import FRACTIONS, LossDef, draw_classes
from odt.kernels.rows.opdef import Array, Options, Specs, TensorSpec
from odt.kernels.rows.updatedef import HyperParameter


@dataclass(frozen=True, slots=True)
class BinaryFocalAttrs:
    """Attributes of BinaryCrossEntropyAttrs, and the focal loss's own.

    Attributes:
        apply_class_balancing: whether to weight positives by alpha and negatives by 1 − alpha.
        alpha: weight of positives.
        gamma: exponent of m.
    """

    from_logits: bool = True
    mean_over_positions: bool = True
    apply_class_balancing: bool = False
    alpha: float = 0.25
    gamma: float = 2.0
    label_smoothing: float = 0.0


def attrs_of(options: Options, statics: Mapping[str, Array]) -> BinaryFocalAttrs:
    return BinaryFocalAttrs(**options)


def scratch(attrs: BinaryFocalAttrs, s: Specs) -> Specs:
    workspace = dict.fromkeys(("terms", "part", "p", "q", "m"), s["x"])
    return {**workspace, **smoothing_workspace(attrs, s)}


def scratch_back(attrs: BinaryFocalAttrs, s: Specs) -> Specs:
    workspace = dict.fromkeys(("part", "p", "q", "m"), s["x"])
    if not attrs.from_logits:
        workspace["outside"] = TensorSpec(s["x"].shape, np.dtype(np.bool_))
    return {**workspace, **smoothing_workspace(attrs, s)}


def forward(
    attrs: BinaryFocalAttrs,
    *,
    x: Array,
    t: Array,
    scale: Array,
    loss: Array,
    terms: Array,
    part: Array,
    p: Array,
    q: Array,
    m: Array,
    divisor: int,
    smooth: Array | None = None,
) -> None:
    t = smoothed(t, attrs.label_smoothing, 2, smooth)
    _probabilities(attrs, x, t, p, q, m, part)
    cross_entropies(attrs.from_logits, x, t, terms, part)
    _modulate(attrs, t, m, part, terms)
    loss[0] = scaled_sum(terms, scale, divisor)


def _probabilities(
    attrs: BinaryFocalAttrs, x: Array, t: Array, p: Array, q: Array, m: Array, part: Array
) -> None:
    """Computes p, q = 1 − p and m = p (1 − t) + q t without loss of digits."""
    if attrs.from_logits:
        logistic.forward(None, x=x, y=p)
        np.negative(x, out=part)
        logistic.forward(None, x=part, y=q)
    else:
        np.clip(x, MIN_PROBABILITY, MAX_PROBABILITY, out=p)
        np.subtract(1, p, out=q)
    np.subtract(1, t, out=m)
    np.multiply(m, p, out=m)
    np.multiply(q, t, out=part)
    np.add(m, part, out=m)
    np.maximum(m, TINY, out=m)


def _modulate(attrs: BinaryFocalAttrs, t: Array, m: Array, part: Array, a: Array) -> None:
    """Multiplies an array by m^γ and the weights of the classes; destroys m."""
    np.power(m, attrs.gamma, out=m)
    np.multiply(a, m, out=a)
    if attrs.apply_class_balancing:
        np.multiply(t, 2 * attrs.alpha - 1, out=part)
        np.add(part, 1 - attrs.alpha, out=part)
        np.multiply(a, part, out=a)


def grad_x(
    attrs: BinaryFocalAttrs,
    *,
    x: Array,
    t: Array,
    scale: Array,
    dx: Array,
    part: Array,
    p: Array,
    q: Array,
    m: Array,
    divisor: int,
    outside: Array | None = None,
    smooth: Array | None = None,
) -> None:
    """Computes dx; from logits, the factor p (1 − p) of the logistic function cancels."""
    t = smoothed(t, attrs.label_smoothing, 2, smooth)
    _probabilities(attrs, x, t, p, q, m, part)
    cross_entropies(attrs.from_logits, x, t, dx, part)
    np.divide(dx, m, out=dx)
    np.multiply(dx, attrs.gamma, out=dx)
    np.multiply(t, -2, out=part)
    np.add(part, 1, out=part)
    np.multiply(dx, part, out=dx)
    np.subtract(p, t, out=part)
    if outside is None:
        np.multiply(dx, p, out=dx)
        np.multiply(dx, q, out=dx)
    else:
        np.not_equal(x, p, out=outside)
        np.divide(part, p, out=part)
        np.divide(part, q, out=part)
    np.add(dx, part, out=dx)
    _modulate(attrs, t, m, part, dx)
    if outside is not None:
        np.copyto(dx, 0, where=outside)
    scale_gradient(dx, scale, divisor)


COMPILED, COMPILED_BACK = focal_losses.binary(prepare)

LOSS = LossDef(
    op=loss_operator(
        "binary_focal_crossentropy",
        infer,
        forward,
        grad_x,
        workspace=scratch,
        workspace_back=scratch_back,
        attrs=attrs_of,
        prepare=prepare,
        compiled=COMPILED,
        compiled_back=COMPILED_BACK,
    ),
    formula="mean of (1 − q)^γ (−log q), q = p where t is 1, else 1 − p",
    expects="like the output, each value from 0 to 1",
    targets=FRACTIONS,
    check=unit_interval,
    draw=draw_classes,
    fuses_with="LOGISTIC",
    probabilities=("SOFTMAX", "LOGISTIC"),
    hyper_parameters=(
        HyperParameter(
            "apply_class_balancing",
            "Whether to weight positives by alpha and negatives by 1 − alpha",
            switch=True,
        ),
        HyperParameter("alpha", "Weight of true units with class balancing", most=1),
        GAMMA,
        LABEL_SMOOTHING,
    ),
    place=8,
)
