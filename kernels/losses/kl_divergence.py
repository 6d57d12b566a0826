"""Kullback-Leibler divergence: Σₖ tₖ (log tₖ − log pₖ) of a distribution t, 0 where p = t.

x (N, …, K)    t like x    scale (1,) or (R,), R runs of samples or positions    loss (1,)

The loss is the categorical cross-entropy minus the entropy of t, which is constant. Therefore p,
the gradient and the mean over the distributions of a sample are those of the categorical
cross-entropy. A class with tₖ = 0 contributes 0.

Source: Kullback, Leibler (1951); as torch.nn.KLDivLoss with reduction batchmean. Keras
differs: it clips tₖ to at least 1e-7.
"""

import numpy as np

from odt.kernels.families.loss_operator import loss_operator
from odt.kernels.families.loss_scale import scaled_sum
from odt.kernels.families.softmax import rows, saved_probabilities
from odt.kernels.geometry.softmax_geometry import (
    SMALLEST,
    CrossEntropyAttrs,
    cross_entropy_attrs,
    prepare,
)
from odt.kernels.losses.categorical_crossentropy import (
    check_distributions,
    grad_x,
    infer,
    log_probabilities,
)
from odt.kernels.native import softmax
from odt.kernels.native.focal_losses import DIVERGENCE
from odt.kernels.rows.lossdef import DISTRIBUTIONS, LossDef, draw_classes
from odt.kernels.rows.opdef import Array, Specs


def scratch(attrs: CrossEntropyAttrs, s: Specs) -> Specs:
    return {**rows(attrs, s), "logs": s["x"], "terms": s["x"]}


def forward(
    attrs: CrossEntropyAttrs,
    *,
    x: Array,
    t: Array,
    scale: Array,
    loss: Array,
    row: Array,
    logs: Array,
    terms: Array,
    divisor: int,
    p: Array | None = None,
) -> None:
    log_probabilities(attrs, x, p, logs, row)
    np.maximum(t, SMALLEST, out=terms)
    np.log(terms, out=terms)
    np.subtract(terms, logs, out=terms)
    np.multiply(terms, t, out=terms)
    loss[0] = scaled_sum(terms, scale, divisor)


LOSS = LossDef(
    op=loss_operator(
        "kl_divergence",
        infer,
        forward,
        grad_x,
        workspace=scratch,
        workspace_back=rows,
        overwrites=("p",),
        saved=saved_probabilities,
        attrs=cross_entropy_attrs,
        prepare=prepare,
        compiled=DIVERGENCE,
        compiled_back=softmax.GRAD_X,
    ),
    formula="Σ t log(t / p)",
    expects="like the output: any distribution over the last axis",
    targets=DISTRIBUTIONS,
    check=check_distributions,
    draw=draw_classes,
    fuses_with="SOFTMAX",
    probabilities=("SOFTMAX",),
    words=("kld", "kl"),
    class_name="KLDivergence",
    place=6,
)
