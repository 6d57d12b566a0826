"""Binary cross-entropy: the loss of a unit is −t log p − (1 − t) log(1 − p), t from 0 to 1.

x (N, …, K)    t like x    scale (1,) or (R,), R runs of samples    loss (1,)

From logits: p = 1 / (1 + e⁻ˣ), and the loss is max(x, 0) − x t + log(1 + e^−|x|), finite for any
    finite x;
    dx = scale (p − t)
From probabilities: p = x, but at least 1e-7 and at most 1 − 1e-7;
    dx = scale (p − t) / (p (1 − p)), and 0 where x is not p
Both are divided by K, and by the number of rows of a sample unless rows are summed. Label smoothing
first moves t towards 1/2.

Source: Keras' binary_crossentropy and its epsilon.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.constant_loss import fraction_entropy
from odt.kernels.families.label_smoothing import LABEL_SMOOTHING, smoothed, smoothing_workspace
from odt.kernels.families.loss_operator import loss_operator
from odt.kernels.families.loss_scale import scale_gradient, scaled_sum
from odt.kernels.native.losses import binary_cross_entropy
from odt.kernels.ops import logistic
from odt.kernels.rows.lossdef import FRACTIONS, Check, LossDef, check_finite, draw_classes
from odt.kernels.rows.opdef import Array, Options, Specs, TensorSpec

MIN_PROBABILITY, MAX_PROBABILITY = 1e-7, 1 - 1e-7  # limits of a probability


@dataclass(frozen=True, slots=True)
class BinaryCrossEntropyAttrs:
    """Attributes of the binary cross-entropy.

    Attributes:
        from_logits: whether x is logits; otherwise x is p.
        mean_over_positions: whether the loss of a sample with several rows of units (rank above 2)
            is their mean, as in Keras, instead of their sum.
        label_smoothing: fraction of each target that is spread evenly over true and false.
    """

    from_logits: bool = True
    mean_over_positions: bool = True
    label_smoothing: float = 0.0


def attrs_of(options: Options, statics: Mapping[str, Array]) -> BinaryCrossEntropyAttrs:
    return BinaryCrossEntropyAttrs(**options)


def infer(attrs: BinaryCrossEntropyAttrs, s: Specs) -> Specs:
    if s["t"] != s["x"] or not s["x"].shape:
        raise ShapeError(f"t must be like x, (N, …, K), but got x {s['x']}, t {s['t']}")
    return {"loss": TensorSpec((1,), s["x"].dtype)}


def prepare(attrs: BinaryCrossEntropyAttrs, s: Specs) -> Mapping[str, Any]:
    sizes = s["x"].shape[1:]
    if not attrs.mean_over_positions:
        sizes = sizes[-1:]
    return {"divisor": max(int(np.prod(sizes)), 1)}


def scratch(attrs: BinaryCrossEntropyAttrs, s: Specs) -> Specs:
    return {"terms": s["x"], "part": s["x"], **smoothing_workspace(attrs, s)}


def scratch_back(attrs: BinaryCrossEntropyAttrs, s: Specs) -> Specs:
    workspace = smoothing_workspace(attrs, s)
    if attrs.from_logits:
        return workspace
    return {"p": s["x"], "outside": TensorSpec(s["x"].shape, np.dtype(np.bool_)), **workspace}


def forward(
    attrs: BinaryCrossEntropyAttrs,
    *,
    x: Array,
    t: Array,
    scale: Array,
    loss: Array,
    terms: Array,
    part: Array,
    divisor: int,
    smooth: Array | None = None,
) -> None:
    t = smoothed(t, attrs.label_smoothing, 2, smooth)
    cross_entropies(attrs.from_logits, x, t, terms, part)
    loss[0] = scaled_sum(terms, scale, divisor)


def cross_entropies(from_logits: bool, x: Array, t: Array, terms: Array, part: Array) -> None:
    """Computes terms, the binary cross-entropy of each unit, with `part` as scratch."""
    if from_logits:
        np.maximum(x, 0, out=terms)
        np.multiply(x, t, out=part)
        np.subtract(terms, part, out=terms)
        np.abs(x, out=part)
        np.negative(part, out=part)
        np.exp(part, out=part)
        np.log1p(part, out=part)
        np.add(terms, part, out=terms)
        return
    np.clip(x, MIN_PROBABILITY, MAX_PROBABILITY, out=part)
    np.subtract(1, part, out=part)
    np.log(part, out=part)
    np.subtract(1, t, out=terms)
    np.multiply(part, terms, out=part)
    np.clip(x, MIN_PROBABILITY, MAX_PROBABILITY, out=terms)
    np.log(terms, out=terms)
    np.multiply(terms, t, out=terms)
    np.add(terms, part, out=terms)
    np.negative(terms, out=terms)


def grad_x(
    attrs: BinaryCrossEntropyAttrs,
    *,
    x: Array,
    t: Array,
    scale: Array,
    dx: Array,
    divisor: int,
    p: Array | None = None,
    outside: Array | None = None,
    smooth: Array | None = None,
) -> None:
    t = smoothed(t, attrs.label_smoothing, 2, smooth)
    if p is None or outside is None:
        logistic.forward(None, x=x, y=dx)
        np.subtract(dx, t, out=dx)
    else:
        np.clip(x, MIN_PROBABILITY, MAX_PROBABILITY, out=p)
        np.not_equal(x, p, out=outside)
        np.subtract(p, t, out=dx)
        np.divide(dx, p, out=dx)
        np.subtract(1, p, out=p)
        np.divide(dx, p, out=dx)
        np.copyto(dx, 0, where=outside)
    scale_gradient(dx, scale, divisor)


def check_unit_interval(rows: Array) -> tuple[int, str] | None:
    """Returns the first row with a value outside 0 … 1 and what is wrong, or None."""
    problem = check_finite(rows)
    if problem is not None or not rows.size or (rows.min() >= 0 and rows.max() <= 1):
        return problem
    bad = (rows < 0) | (rows > 1)
    k = int(np.argmax(bad.any(axis=1)))
    value = float(rows[k][np.argmax(bad[k])])
    return k, f"targets must be 0 … 1, but got {value:g}"


def unit_interval(output: TensorSpec) -> Check:
    """Returns the check for targets from 0 to 1."""
    return check_unit_interval


COMPILED, COMPILED_BACK = binary_cross_entropy(smoothing_workspace, prepare)

LOSS = LossDef(
    op=loss_operator(
        "binary_crossentropy",
        infer,
        forward,
        grad_x,
        workspace=scratch,
        workspace_back=scratch_back,
        overwrites=("x",),
        compiled=COMPILED,
        compiled_back=COMPILED_BACK,
        attrs=attrs_of,
        prepare=prepare,
    ),
    formula="mean of −t log p − (1 − t) log(1 − p)",
    expects="like the output, each value from 0 to 1",
    targets=FRACTIONS,
    check=unit_interval,
    draw=draw_classes,
    constant_loss=fraction_entropy,
    fuses_with="LOGISTIC",
    default_for="LOGISTIC",
    probabilities=("SOFTMAX", "LOGISTIC"),
    hyper_parameters=(LABEL_SMOOTHING,),
    words=("bce",),
    place=2,
)
