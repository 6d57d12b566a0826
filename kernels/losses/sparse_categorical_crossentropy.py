"""Sparse categorical cross-entropy: −log pₜ for a class number t.

x (N, …, K)    t (N, …) int32    scale (1,)    loss (1,)

From logits: p = softmax(β x);  dx = scale β (p − onehot(t))
From probabilities: p = x;      dx = −scale onehot(t) / max(p, 1e-20)
Both divided by the number of distributions a sample has, unless they are to be summed.

Source: Keras' sparse_categorical_crossentropy; the floor 1e-20 is onert's. Class numbers are
checked where the data is read: here one out of range is wrapped into it.
"""

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.softmax import SMALLEST, rows, saved_probabilities, shift_by_max
from odt.kernels.geometry.softmax_geometry import CrossEntropyAttrs, cross_entropy_attrs, prepare
from odt.kernels.lossdef import LABELS, Check, LossDef, Rng
from odt.kernels.opdef import Array, Kernel, OpDef, Specs, TensorSpec

INT32 = np.dtype(np.int32)
INDEX = np.dtype(np.intp)


def target(x: TensorSpec) -> TensorSpec:
    return TensorSpec(x.shape[:-1], INT32)


def infer(attrs: CrossEntropyAttrs, s: Specs) -> Specs:
    x, t = s["x"], s["t"]
    if len(x.shape) < 2 or t != target(x):
        raise ShapeError(f"x must be (N, …, K) and t (N, …) int32, but got x {x}, t {t}")
    return {"loss": TensorSpec((1,), x.dtype)}


def scratch(attrs: CrossEntropyAttrs, s: Specs) -> Specs:
    """Rows, and where in the flat x each target's class stands."""
    spec = rows(attrs, s)["row"]
    flat = {"at": TensorSpec((spec.size,), INDEX), "first": TensorSpec((spec.size,), INDEX)}
    return {"row": spec, "picked": TensorSpec((spec.size,), spec.dtype), **flat}


def find(t: Array, classes: int, at: Array, first: Array) -> None:
    """at = row · K + class, the flat index of each target."""
    first.fill(classes)
    first[0] = 0
    np.cumsum(first, out=first)
    np.copyto(at, t.reshape(-1, copy=False))
    np.add(at, first, out=at)


def forward(
    attrs: CrossEntropyAttrs,
    *,
    x: Array,
    t: Array,
    scale: Array,
    loss: Array,
    row: Array,
    picked: Array,
    at: Array,
    first: Array,
    divisor: int,
    p: Array | None = None,
) -> None:
    find(t, x.shape[-1], at, first)
    factor = -scale[0] / divisor
    if p is None:
        np.take(x.reshape(-1, copy=False), at, out=picked, mode="clip")
        np.maximum(picked, SMALLEST, out=picked)
        np.log(picked, out=picked)
        loss[0] = np.sum(picked) * factor
        return
    x2, p2 = (a.reshape(-1, x.shape[-1], copy=False) for a in (x, p))
    shift_by_max(x2, attrs.beta, p2, row)
    np.take(p2.reshape(-1, copy=False), at, out=picked, mode="clip")
    np.exp(p2, out=p2)
    np.sum(p2, axis=1, keepdims=True, out=row)
    np.divide(p2, row, out=p2)
    np.log(row, out=row)
    np.subtract(picked, row.reshape(-1, copy=False), out=picked)
    loss[0] = np.sum(picked) * factor


def grad_x(
    attrs: CrossEntropyAttrs,
    *,
    x: Array,
    t: Array,
    scale: Array,
    dx: Array,
    row: Array,
    picked: Array,
    at: Array,
    first: Array,
    divisor: int,
    p: Array | None = None,
) -> None:
    find(t, dx.shape[-1], at, first)
    flat = dx.reshape(-1, copy=False)
    factor = scale[0] / divisor
    if p is None:
        np.take(x.reshape(-1, copy=False), at, out=picked, mode="clip")
        np.maximum(picked, SMALLEST, out=picked)
        np.divide(-factor, picked, out=picked)
        flat.fill(0)
    else:
        factor *= attrs.beta
        np.multiply(p, factor, out=dx)
        np.take(flat, at, out=picked, mode="clip")
        np.subtract(picked, factor, out=picked)
    np.put(flat, at, picked, mode="clip")


def check_labels(output: TensorSpec) -> Check:
    """Checks class numbers: 0 to classes − 1."""
    classes = output.shape[-1] if output.shape else 1

    def check(rows: Array) -> tuple[int, str] | None:
        if not rows.size or (rows.min() >= 0 and rows.max() < classes):
            return None
        for k, row in enumerate(rows):
            for label in (row.min(), row.max()):
                if not 0 <= label < classes:
                    return k, f"labels must be 0 … {classes - 1}, but got {label}"
        raise AssertionError("no label is at fault")

    return check


def draw_labels(rng: Rng, target: TensorSpec) -> Array:
    return rng.integers(0, 2, target.shape)


LOSS = LossDef(
    op=OpDef(
        "sparse_categorical_crossentropy",
        inputs=("x", "t", "scale"),
        infer=infer,
        forward=Kernel(
            forward,
            reads=("x", "t", "scale"),
            writes=("loss", "p?"),
            workspace=scratch,
            prepare=prepare,
        ),
        grads={
            "x": Kernel(
                grad_x,
                reads=("x", "p?", "t", "scale"),
                writes=("dx",),
                workspace=scratch,
                may_alias=frozenset({("dx", "p")}),
                prepare=prepare,
            )
        },
        stops=("t", "scale"),
        outputs=("loss",),
        aux=saved_probabilities,
        attrs=cross_entropy_attrs,
    ),
    formula="−log p of that class",
    expects="class numbers, one for each distribution",
    target=target,
    targets=LABELS,
    check=check_labels,
    draw=draw_labels,
    fuses_with="SOFTMAX",
    probabilities=("SOFTMAX",),
    words=("sparse cce",),
    place=1,
)
