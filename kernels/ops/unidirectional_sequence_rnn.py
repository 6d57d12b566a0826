"""UNIDIRECTIONAL_SEQUENCE_RNN: yₜ = f(xₜ wᵀ + yₜ₋₁ rᵀ + b), with initial state 0.

x (N, T, I), or (T, N, I) if time_major    w (O, I)    r (O, O)    b (O,)    y like x, of O units
f is the fused activation. Its argument z has the gradient dzₜ = (dyₜ + dzₜ₊₁ r) f′, computed from
the last step to the first; then

dx = dz w       dw = Σ dzₜᵀ xₜ       dr = Σ dzₜᵀ yₜ₋₁       db = Σ dzₜ

Each run begins with state 0; TFLite continues with the last state of the run before.
Source: SequenceRNNOptions in the TFLite schema.
"""

from collections.abc import Mapping

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.recurrent import (
    activate,
    batch_first,
    before_each_step,
    by_time,
    flops,
    fused,
    mixes_along_time,
    must_be,
    rows,
    state_before,
    times_slope,
)
from odt.kernels.geometry.recurrent_geometry import RnnAttrs
from odt.kernels.native import recurrent as compiled
from odt.kernels.rows.opdef import (
    Arithmetic,
    Array,
    Kernel,
    Names,
    OpDef,
    Options,
    Specs,
    TensorSpec,
)


def attrs(options: Options, statics: Mapping[str, Array]) -> RnnAttrs:
    return RnnAttrs(0 if options.get("time_major", False) else 1, fused(options))


def infer(attrs: RnnAttrs, s: Specs) -> Specs:
    x, w = s["x"], s["w"]
    if len(x.shape) != 3 or len(w.shape) != 2 or x.dtype.kind != "f":
        raise ShapeError(f"x must be (N, T, I) floats and w (O, I), but got x {x}, w {w}")
    units = w.shape[0]
    must_be(s, "w", units, x.shape[2])
    must_be(s, "r", units, units)
    must_be(s, "b", units)
    return {"y": TensorSpec((*x.shape[:2], units), x.dtype)}


def mixes_samples(attrs: RnnAttrs, s: Specs, batched: Names) -> bool:
    return mixes_along_time(attrs.time_axis, batched)


def one_step(attrs: RnnAttrs, s: Specs) -> Specs:
    y = s["y"]
    return {"work": TensorSpec((y.shape[1 - attrs.time_axis], y.shape[2]), y.dtype)}


def forward(
    attrs: RnnAttrs, *, x: Array, w: Array, r: Array, b: Array, y: Array, work: Array
) -> None:
    np.matmul(rows(x), w.T, out=rows(y))
    np.add(y, b, out=y)
    before = None
    for now in by_time(attrs.time_axis, y):
        if before is not None:
            np.matmul(before, r.T, out=work)
            np.add(now, work, out=now)
        activate(attrs.activation, now)
        before = now


def backward(attrs: RnnAttrs, *, dy: Array, y: Array, r: Array, dz: Array, work: Array) -> None:
    np.copyto(dz, dy)
    ys, dzs = by_time(attrs.time_axis, y), by_time(attrs.time_axis, dz)
    after = None
    for now, d in zip(ys[::-1], dzs[::-1], strict=True):
        if after is not None:
            np.matmul(after, r, out=work)
            np.add(d, work, out=d)
        times_slope(attrs.activation, now, d, work)
        after = d


def grad_x(attrs: RnnAttrs, *, dz: Array, w: Array, dx: Array) -> None:
    np.matmul(rows(dz), w, out=rows(dx))


def grad_w(attrs: RnnAttrs, *, dz: Array, x: Array, dw: Array) -> None:
    np.matmul(rows(dz).T, rows(x), out=dw)


def grad_r(attrs: RnnAttrs, *, dz: Array, y: Array, dr: Array, before: Array) -> None:
    state_before(attrs.time_axis, y, before)
    np.matmul(rows(dz).T, rows(before), out=dr)


def grad_b(attrs: RnnAttrs, *, dz: Array, db: Array) -> None:
    np.sum(rows(dz), axis=0, out=db)


OP = OpDef(
    "UNIDIRECTIONAL_SEQUENCE_RNN",
    inputs=("x", "w", "r", "b", "h"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x", "w", "r", "b"),
        writes=("y",),
        workspace=one_step,
        compiled=compiled.RNN,
    ),
    backward=Kernel(
        backward,
        reads=("dy", "y", "r"),
        writes=("dz",),
        workspace=one_step,
        may_alias=frozenset({("dz", "dy")}),
        compiled=compiled.RNN_BACK,
    ),
    shared=lambda attrs, s: {"dz": s["y"]},
    grads={
        "x": Kernel(grad_x, reads=("dz", "w"), writes=("dx",), compiled=compiled.BY_X),
        "w": Kernel(
            grad_w, reads=("dz", "x"), writes=("dw",), compiled=compiled.by_weights("x", 0)
        ),
        "r": Kernel(
            grad_r, ("dz", "y"), ("dr",), before_each_step, compiled=compiled.by_weights("y", 0)
        ),
        "b": Kernel(grad_b, reads=("dz",), writes=("db",), compiled=compiled.by_bias(0)),
    },
    zero_state=("h",),
    attrs=attrs,
    keeps_activation=True,
    mixes_samples=mixes_samples,
    batch_first=batch_first,
    flops=flops,
    arithmetic=Arithmetic.DENSE,
)
