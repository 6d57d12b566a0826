"""Sparse categorical cross-entropy: −log pₜ for a class index t.

x (N, …, K)    t (N, …) int32    scale (1,) or (R,), R runs of samples or positions    loss (1,)

From logits: p = softmax(β x);  dx = scale β (p − onehot(t))
From probabilities: p = x;      dx = −scale onehot(t) / max(p, 1e-20)
Both are divided by the number of distributions of a sample, unless distributions are summed. Label
smoothing takes a part ε from onehot(t) and adds ε / K to each class. A distribution with t = −1 is
ignored: its loss and dx are 0. Scales of a mean are for the targets of the batch that count.

Source: Keras' sparse_categorical_crossentropy; the floor 1e-20 is onert's. Label smoothing and
ignored targets are those of torch.nn.CrossEntropyLoss. Class numbers are checked when data is read;
here, any below 0 is ignored, and one too large reads another value of x, but nothing outside it.
"""

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.constant_loss import label_entropy
from odt.kernels.families.label_smoothing import LABEL_SMOOTHING
from odt.kernels.families.loss_operator import loss_operator
from odt.kernels.families.loss_scale import scale_gradient, scaled_sum
from odt.kernels.families.softmax import rows, saved_probabilities, shift_by_max
from odt.kernels.geometry.softmax_geometry import (
    SMALLEST,
    CrossEntropyAttrs,
    cross_entropy_attrs,
    prepare,
)
from odt.kernels.native import softmax as compiled
from odt.kernels.rows.lossdef import LABELS, Check, LabelCheck, LossDef, Rng
from odt.kernels.rows.opdef import Array, Specs, TensorSpec

INT32 = np.dtype(np.int32)
BOOL = np.dtype(np.bool_)
INDEX = np.dtype(np.intp)


def target(x: TensorSpec) -> TensorSpec:
    return TensorSpec(x.shape[:-1], INT32)


def infer(attrs: CrossEntropyAttrs, s: Specs) -> Specs:
    x, t = s["x"], s["t"]
    if len(x.shape) < 2 or t != target(x):
        raise ShapeError(f"x must be (N, …, K) and t (N, …) int32, but got x {x}, t {t}")
    return {"loss": TensorSpec((1,), x.dtype)}


def scratch(attrs: CrossEntropyAttrs, s: Specs) -> Specs:
    """Returns the workspace: row statistics, and of each target its class's flat index in x."""
    spec = rows(attrs, s)["row"]
    flat = {"at": TensorSpec((spec.size,), INDEX), "first": TensorSpec((spec.size,), INDEX)}
    ignored = TensorSpec((spec.size,), BOOL)
    return {"row": spec, "values": TensorSpec((spec.size,), spec.dtype), **flat, "ignored": ignored}


def scratch_forward(attrs: CrossEntropyAttrs, s: Specs) -> Specs:
    """Returns the workspace of forward: with label smoothing, also the mean of the logarithms."""
    specs = scratch(attrs, s)
    if not attrs.label_smoothing:
        return specs
    logs = {} if attrs.from_logits else {"logs": s["x"]}
    return {**specs, "mean": specs["values"], **logs}


def find(t: Array, classes: int, at: Array, first: Array, ignored: Array) -> None:
    """Computes at = row · K + class, the flat index of each target in x, and which are ignored."""
    first.fill(classes)
    first[0] = 0
    np.cumsum(first, out=first)
    np.copyto(at, t.reshape(-1, copy=False))
    np.less(at, 0, out=ignored)
    np.maximum(at, 0, out=at)
    np.add(at, first, out=at)


def forward(
    attrs: CrossEntropyAttrs,
    *,
    x: Array,
    t: Array,
    scale: Array,
    loss: Array,
    values: Array,
    divisor: int,
    **arrays: Array,
) -> None:
    log_p(attrs, x=x, t=t, values=values, **arrays)
    loss[0] = scaled_sum(values, scale, -divisor)


def log_p(
    attrs: CrossEntropyAttrs,
    *,
    x: Array,
    t: Array,
    row: Array,
    values: Array,
    at: Array,
    first: Array,
    ignored: Array,
    p: Array | None = None,
    mean: Array | None = None,
    logs: Array | None = None,
    terms: Array | None = None,
) -> None:
    """Computes log p of each target's class, which label smoothing mixes with those of all classes.

    Args:
        attrs: attributes of the loss.
        x: logits or probabilities.
        t: targets.
        values: the results; 0 for targets that are ignored.
        p: gets the probabilities of logits; may be x.
        terms: gets −log p of the classes of logits, without label smoothing; None for none.
        row, at, first, ignored, mean, logs: workspace.
    """
    find(t, x.shape[-1], at, first, ignored)
    smoothing = attrs.label_smoothing
    if p is None:
        np.take(x.reshape(-1, copy=False), at, out=values, mode="clip")
        np.maximum(values, SMALLEST, out=values)
        np.log(values, out=values)
        if logs is not None and mean is not None:
            np.maximum(x, SMALLEST, out=logs)
            np.log(logs, out=logs)
            np.mean(logs.reshape(-1, x.shape[-1], copy=False), axis=1, out=mean)
            _mix(values, mean, smoothing)
        np.copyto(values, 0, where=ignored)
        return
    x2, p2 = (a.reshape(-1, x.shape[-1], copy=False) for a in (x, p))
    shift_by_max(x2, attrs.beta, p2, row)
    np.take(p2.reshape(-1, copy=False), at, out=values, mode="clip")
    if terms is not None:
        np.copyto(terms, values)
    if mean is not None:
        np.mean(p2, axis=1, out=mean)
        _mix(values, mean, smoothing)
    np.exp(p2, out=p2)
    np.sum(p2, axis=1, keepdims=True, out=row)
    np.divide(p2, row, out=p2)
    np.log(row, out=row)
    log_sums = row.reshape(-1, copy=False)
    np.subtract(values, log_sums, out=values)
    np.copyto(values, 0, where=ignored)
    if terms is not None:
        np.subtract(log_sums, terms, out=terms)
        np.copyto(terms, 0, where=ignored)


def _mix(values: Array, mean: Array, smoothing: float) -> None:
    """Mixes the logarithm of the target's class with the mean of all classes' logarithms.

    Args:
        values: logarithms of the targets' classes, which are changed.
        mean: means of the logarithms, which are destroyed.
        smoothing: share of the mean.
    """
    np.subtract(mean, values, out=mean)
    np.multiply(mean, smoothing, out=mean)
    np.add(values, mean, out=values)


def grad_x(
    attrs: CrossEntropyAttrs,
    *,
    x: Array,
    t: Array,
    scale: Array,
    dx: Array,
    row: Array,
    values: Array,
    at: Array,
    first: Array,
    ignored: Array,
    divisor: int,
    p: Array | None = None,
) -> None:
    classes = dx.shape[-1]
    smoothing = attrs.label_smoothing
    find(t, classes, at, first, ignored)
    flat = dx.reshape(-1, copy=False)
    if p is None:
        np.take(x.reshape(-1, copy=False), at, out=values, mode="clip")
        np.maximum(values, SMALLEST, out=values)
        np.divide(smoothing / classes + 1 - smoothing, values, out=values)
        if smoothing:
            np.maximum(x, SMALLEST, out=dx)
            np.divide(smoothing / classes, dx, out=dx)
        else:
            flat.fill(0)
        np.put(flat, at, values, mode="clip")
        scale_gradient(dx, scale, -divisor)
        _ignore(dx, ignored)
        return
    np.subtract(p, smoothing / classes, out=dx)
    np.take(flat, at, out=values, mode="clip")
    np.subtract(values, 1 - smoothing, out=values)
    np.put(flat, at, values, mode="clip")
    scale_gradient(dx, scale, divisor, attrs.beta)
    _ignore(dx, ignored)


def _ignore(dx: Array, ignored: Array) -> None:
    """Sets the gradients of distributions that are ignored to 0."""
    if ignored.any():
        rows_of_dx = dx.reshape(-1, dx.shape[-1], copy=False)
        np.copyto(rows_of_dx, 0, where=ignored[:, np.newaxis])


def check_labels(output: TensorSpec) -> Check:
    """Returns the check of class numbers: 0 to classes − 1, or −1 for a target to ignore."""
    return LabelCheck(output.shape[-1] if output.shape else 1)


def draw_labels(rng: Rng, target: TensorSpec) -> Array:
    return rng.integers(0, 2, target.shape)


LOSS = LossDef(
    op=loss_operator(
        "sparse_categorical_crossentropy",
        infer,
        forward,
        grad_x,
        workspace=scratch_forward,
        workspace_back=scratch,
        overwrites=("p",),
        saved=saved_probabilities,
        attrs=cross_entropy_attrs,
        prepare=prepare,
        compiled=compiled.LABELS_FORWARD,
        compiled_back=compiled.LABELS_GRAD_X,
    ),
    formula="−log p of that class",
    expects="class numbers, one for each distribution; −1 is ignored",
    target=target,
    targets=LABELS,
    check=check_labels,
    draw=draw_labels,
    constant_loss=label_entropy,
    fuses_with="SOFTMAX",
    probabilities=("SOFTMAX",),
    hyper_parameters=(LABEL_SMOOTHING,),
    words=("sparse cce",),
    place=1,
)
