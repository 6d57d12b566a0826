"""Categorical focal loss: −α Σₖ tₖ (1 − pₖ)^γ log pₖ, which down-weights easy samples.

x (N, …, K)    t like x    scale (1,) or (R,), R runs of samples or positions    loss (1,)

From logits: p = softmax(β x);  dx = scale α β (h − p Σₖ hₖ)
From probabilities: p = x, but at least 1e-7 and at most 1 − 1e-7;
    dx = scale α h / p, and 0 where x is not p
with hₖ = tₖ (1 − pₖ)^γ (γ pₖ log pₖ / (1 − pₖ) − 1). Both are divided by the number of
distributions of a sample, unless distributions are summed. Label smoothing first spreads a part of
t evenly over the K classes.

Source: Lin et al. (2017), Focal Loss for Dense Object Detection; defaults and epsilon of Keras'
CategoricalFocalCrossentropy.
"""

from collections.abc import Mapping

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.families.label_smoothing import LABEL_SMOOTHING, smoothed, smoothing_workspace
from odt.kernels.families.loss_operator import loss_operator
from odt.kernels.families.loss_scale import scale_gradient, scaled_sum
from odt.kernels.families.softmax import log_softmax, rows, saved_probabilities
from odt.kernels.geometry.softmax_geometry import TINY, prepare
from odt.kernels.losses.binary_crossentropy import MAX_PROBABILITY, MIN_PROBABILITY
from odt.kernels.losses.categorical_crossentropy import check_distributions, infer
from odt.kernels.native.focal_losses import CATEGORICAL, CATEGORICAL_BACK
from odt.kernels.rows.lossdef import DISTRIBUTIONS, LossDef, draw_classes
from odt.kernels.rows.opdef import Array, Options, Specs, TensorSpec
from odt.kernels.rows.updatedef import HyperParameter

GAMMA = HyperParameter(
    "gamma", "Focusing parameter: exponent of 1 − p; 0 weights all samples equally"
)


@dataclass(frozen=True, slots=True)
class CategoricalFocalAttrs:
    """Attributes of CrossEntropyAttrs, and the focal loss's own: factor alpha, exponent gamma."""

    from_logits: bool = True
    beta: float = 1.0
    mean_over_positions: bool = True
    alpha: float = 0.25
    gamma: float = 2.0
    label_smoothing: float = 0.0


def attrs_of(options: Options, statics: Mapping[str, Array]) -> CategoricalFocalAttrs:
    return CategoricalFocalAttrs(**options)


def scratch(attrs: CategoricalFocalAttrs, s: Specs) -> Specs:
    return {**rows(attrs, s), **smoothing_workspace(attrs, s), "logs": s["x"], "rest": s["x"]}


def scratch_back(attrs: CategoricalFocalAttrs, s: Specs) -> Specs:
    workspace = {**rows(attrs, s), **smoothing_workspace(attrs, s), "rest": s["x"]}
    if attrs.from_logits:
        return workspace
    outside = TensorSpec(s["x"].shape, np.dtype(np.bool_))
    return {**workspace, "clipped": s["x"], "outside": outside}


def forward(
    attrs: CategoricalFocalAttrs,
    *,
    x: Array,
    t: Array,
    scale: Array,
    loss: Array,
    row: Array,
    logs: Array,
    rest: Array,
    divisor: int,
    p: Array | None = None,
    smooth: Array | None = None,
) -> None:
    """Computes the loss; rest = 1 − p is from log p, so that it keeps its digits near p = 1."""
    if p is None:
        np.clip(x, MIN_PROBABILITY, MAX_PROBABILITY, out=logs)
        np.log(logs, out=logs)
    else:
        x2, p2, logs2 = (a.reshape(-1, x.shape[-1], copy=False) for a in (x, p, logs))
        log_softmax(x2, attrs.beta, p2, logs2, row)
    np.expm1(logs, out=rest)
    np.negative(rest, out=rest)
    np.power(rest, attrs.gamma, out=rest)
    np.multiply(logs, rest, out=logs)
    np.multiply(logs, smoothed(t, attrs.label_smoothing, x.shape[-1], smooth), out=logs)
    loss[0] = scaled_sum(logs, scale, divisor) * -attrs.alpha


def grad_x(
    attrs: CategoricalFocalAttrs,
    *,
    x: Array,
    t: Array,
    scale: Array,
    dx: Array,
    row: Array,
    rest: Array,
    divisor: int,
    p: Array | None = None,
    smooth: Array | None = None,
    clipped: Array | None = None,
    outside: Array | None = None,
) -> None:
    t = smoothed(t, attrs.label_smoothing, t.shape[-1], smooth)
    if p is not None:
        _h(attrs, p, t, rest, dx)
        p2, rest2, dx2 = (a.reshape(-1, t.shape[-1], copy=False) for a in (p, rest, dx))
        np.sum(dx2, axis=1, keepdims=True, out=row)
        np.multiply(p2, row, out=rest2)
        np.subtract(dx2, rest2, out=dx2)
        factor = attrs.alpha * attrs.beta
    else:
        assert clipped is not None, "workspace for probabilities"
        assert outside is not None, "workspace for probabilities"
        np.clip(x, MIN_PROBABILITY, MAX_PROBABILITY, out=clipped)
        np.not_equal(x, clipped, out=outside)
        _h(attrs, clipped, t, rest, dx)
        np.divide(dx, clipped, out=dx)
        np.copyto(dx, 0, where=outside)
        factor = attrs.alpha
    np.multiply(dx, factor, out=dx)
    scale_gradient(dx, scale, divisor)


def _h(attrs: CategoricalFocalAttrs, p: Array, t: Array, rest: Array, h: Array) -> None:
    """Computes h, and rest = (1 − p)^γ."""
    np.subtract(1, p, out=rest)
    np.maximum(rest, TINY, out=rest)
    np.maximum(p, TINY, out=h)
    np.log(h, out=h)
    np.multiply(h, p, out=h)
    np.divide(h, rest, out=h)
    np.multiply(h, attrs.gamma, out=h)
    np.subtract(h, 1, out=h)
    np.power(rest, attrs.gamma, out=rest)
    np.multiply(h, rest, out=h)
    np.multiply(h, t, out=h)


LOSS = LossDef(
    op=loss_operator(
        "categorical_focal_crossentropy",
        infer,
        forward,
        grad_x,
        workspace=scratch,
        workspace_back=scratch_back,
        saved=saved_probabilities,
        attrs=attrs_of,
        prepare=prepare,
        compiled=CATEGORICAL,
        compiled_back=CATEGORICAL_BACK,
    ),
    formula="−α Σ t (1 − p)^γ log p",
    expects="like the output: one-hot, or any distribution over the last axis",
    targets=DISTRIBUTIONS,
    check=check_distributions,
    draw=draw_classes,
    fuses_with="SOFTMAX",
    probabilities=("SOFTMAX",),
    hyper_parameters=(HyperParameter("alpha", "Factor of the loss"), GAMMA, LABEL_SMOOTHING),
    place=7,
)
