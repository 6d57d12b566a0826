"""Categorical cross-entropy: −Σₖ tₖ log pₖ, t one-hot or any distribution.

x (N, …, K)    t like x    scale (1,) or (R,), R runs of samples or positions    loss (1,)

From logits: p = softmax(β x), log p = β x − logsumexp(β x), stable for any finite x;
    dx = scale β (p Σₖ tₖ − t)
From probabilities: p = x, log max(p, 1e-20);
    dx = −scale t / max(p, 1e-20)
Both are divided by the number of distributions of a sample, unless distributions are summed. Label
smoothing first spreads a part of t evenly over the K classes.

Source: onert's CCE (the lower limit 1e-20), Keras' categorical_crossentropy.
"""

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.constant_loss import distribution_entropy
from odt.kernels.families.label_smoothing import LABEL_SMOOTHING, smoothed, smoothing_workspace
from odt.kernels.families.loss_operator import loss_operator
from odt.kernels.families.loss_scale import scale_gradient, scaled_sum
from odt.kernels.families.softmax import log_softmax, rows, saved_probabilities
from odt.kernels.geometry.softmax_geometry import (
    SMALLEST,
    CrossEntropyAttrs,
    cross_entropy_attrs,
    prepare,
)
from odt.kernels.native import softmax as compiled
from odt.kernels.rows.lossdef import DISTRIBUTIONS, Check, LossDef, check_finite, draw_classes
from odt.kernels.rows.opdef import Array, Specs, TensorSpec

SUM_TOLERANCE = 1e-3  # error of a distribution's sum; float16 files have errors of about 5e-4
ROWS = 1024  # rows checked at a time, so that scratch does not grow with the batch


def infer(attrs: CrossEntropyAttrs, s: Specs) -> Specs:
    if s["t"] != s["x"] or len(s["x"].shape) < 2:
        raise ShapeError(f"t must be like x, (N, …, K), but got x {s['x']}, t {s['t']}")
    return {"loss": TensorSpec((1,), s["x"].dtype)}


def scratch(attrs: CrossEntropyAttrs, s: Specs) -> Specs:
    return {**scratch_back(attrs, s), "logs": s["x"]}


def scratch_back(attrs: CrossEntropyAttrs, s: Specs) -> Specs:
    return {**rows(attrs, s), **smoothing_workspace(attrs, s)}


def forward(
    attrs: CrossEntropyAttrs,
    *,
    x: Array,
    t: Array,
    scale: Array,
    loss: Array,
    row: Array,
    logs: Array,
    divisor: int,
    p: Array | None = None,
    smooth: Array | None = None,
) -> None:
    log_probabilities(attrs, x, p, logs, row)
    np.multiply(logs, smoothed(t, attrs.label_smoothing, x.shape[-1], smooth), out=logs)
    loss[0] = scaled_sum(logs, scale, -divisor)


def log_probabilities(
    attrs: CrossEntropyAttrs, x: Array, p: Array | None, logs: Array, row: Array
) -> None:
    """Fills logs with log p, and p if x is logits."""
    if p is None:
        np.maximum(x, SMALLEST, out=logs)
        np.log(logs, out=logs)
        return
    x2, p2, logs2 = (a.reshape(-1, x.shape[-1], copy=False) for a in (x, p, logs))
    log_softmax(x2, attrs.beta, p2, logs2, row)


def grad_x(
    attrs: CrossEntropyAttrs,
    *,
    x: Array,
    t: Array,
    scale: Array,
    dx: Array,
    divisor: int,
    row: Array,
    p: Array | None = None,
    smooth: Array | None = None,
) -> None:
    t = smoothed(t, attrs.label_smoothing, t.shape[-1], smooth)
    if p is None:
        np.maximum(x, SMALLEST, out=dx)
        np.divide(t, dx, out=dx)
        scale_gradient(dx, scale, -divisor)
        return
    t2, p2, dx2 = (a.reshape(-1, t.shape[-1], copy=False) for a in (t, p, dx))
    np.sum(t2, axis=1, keepdims=True, out=row)
    np.multiply(p2, row, out=dx2)
    np.subtract(dx2, t2, out=dx2)
    scale_gradient(dx, scale, divisor, attrs.beta)


def check_distributions(output: TensorSpec) -> Check:
    """Returns the check of distributions: values along the last axis must add up to 1."""
    classes = output.shape[-1] if output.shape else 1

    def check(rows: Array) -> tuple[int, str] | None:
        problem = check_finite(rows)
        if problem is not None:
            return problem
        distributions = rows.reshape(-1, classes, copy=False)
        for at in range(0, len(distributions), ROWS):
            block = distributions[at : at + ROWS]
            sums = block.sum(axis=1)
            if block.min() >= 0 and abs(sums - 1).max() <= SUM_TOLERANCE:
                continue
            bad = (block.min(axis=1) < 0) | (abs(sums - 1) > SUM_TOLERANCE)
            k = int(np.argmax(bad))
            row = (at + k) * classes // rows.shape[1]
            least = float(block[k].min())
            actual = f"a value {least:g}" if least < 0 else f"the sum {float(sums[k]):g}"
            return row, (
                f"a target must be {classes} values ≥ 0 that add up to 1, but got {actual}"
            )
        return None

    return check


LOSS = LossDef(
    op=loss_operator(
        "categorical_crossentropy",
        infer,
        forward,
        grad_x,
        workspace=scratch,
        workspace_back=scratch_back,
        overwrites=("p",),
        saved=saved_probabilities,
        attrs=cross_entropy_attrs,
        prepare=prepare,
        compiled=compiled.FORWARD,
        compiled_back=compiled.GRAD_X,
    ),
    formula="−Σ t log p",
    expects="like the output: one-hot, or any distribution over the last axis",
    targets=DISTRIBUTIONS,
    check=check_distributions,
    draw=draw_classes,
    constant_loss=distribution_entropy,
    fuses_with="SOFTMAX",
    default_for="SOFTMAX",
    probabilities=("SOFTMAX",),
    hyper_parameters=(LABEL_SMOOTHING,),
    words=("cce",),
    onert=2,
    place=0,
)
