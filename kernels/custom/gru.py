"""CUSTOM:GRU: gated recurrent unit over time; y is the state at each step.

x (N, T, I), or (T, N, I) if time_major    w (3 O, I)    r (3 O, O)    b, c (3 O,)    h (N, O)
y (N, T, O), or (T, N, O)                  w₁, w₂, w₃: thirds of w along its rows; so r, b, c

    u = σ(w₁ xₜ + b₁ + r₁ yₜ₋₁ + c₁)
    g = σ(w₂ xₜ + b₂ + r₂ yₜ₋₁ + c₂)
    n = tanh(w₃ xₜ + b₃ + g ⊙ (r₃ yₜ₋₁ + c₃))     with reset_after
    n = tanh(w₃ xₜ + b₃ + r₃ (g ⊙ yₜ₋₁) + c₃)     otherwise
    yₜ = (1 − u) ⊙ n + u ⊙ yₜ₋₁

h is the state before the first step, 0 if absent; one row stands for all samples. Gradients are
computed from the last step to the first; those of the gates' arguments, dz, give all others by
products over all steps at once.

Source: Cho et al. 2014; reset_after is the form of cuDNN. GRU of ONNX, whose linear_before_reset
is reset_after, has the same order of gates.
"""

from collections.abc import Mapping

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.recurrent import (
    batch_first,
    by_time,
    check_state,
    flops,
    must_be,
    rows,
    sigmoid,
    sum_to,
    times_sigmoid_slope,
    times_slope,
)
from odt.kernels.geometry.activations import TANH
from odt.kernels.geometry.recurrent_geometry import GruAttrs
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


def attrs(options: Options, statics: Mapping[str, Array]) -> GruAttrs:
    axis = 0 if options.get("time_major", False) else 1
    return GruAttrs(axis, bool(options.get("reset_after", False)))


def infer(attrs: GruAttrs, s: Specs) -> Specs:
    x, r = s["x"], s["r"]
    if len(x.shape) != 3 or len(r.shape) != 2 or x.dtype.kind != "f":
        raise ShapeError(f"x must be (N, T, I) floats and r (3 O, O), but got x {x}, r {r}")
    units = r.shape[1]
    must_be(s, "r", 3 * units, units)
    must_be(s, "w", 3 * units, x.shape[2])
    for bias in "bc":
        must_be(s, bias, 3 * units)
    check_state(s, "h", x.shape[1 - attrs.time_axis], units)
    return {"y": TensorSpec((*x.shape[:2], units), x.dtype)}


def mixes_samples(attrs: GruAttrs, s: Specs, batched: Names) -> bool:
    return attrs.time_axis == 0 or not {"x"} <= batched <= {"x", "h"}


def step_spec(attrs: GruAttrs, s: Specs) -> TensorSpec:
    """Returns the spec of y at one step, (N, O)."""
    y = s["y"]
    return TensorSpec((y.shape[1 - attrs.time_axis], y.shape[2]), y.dtype)


def aux(attrs: GruAttrs, s: Specs) -> Specs:
    """Returns the specs of the gates, and of r₃ yₜ₋₁ + c₃ with reset_after, else of g ⊙ yₜ₋₁."""
    y = s["y"]
    return {"gates": TensorSpec((*y.shape[:2], 3 * y.shape[2]), y.dtype), "inner": y}


def scratch(attrs: GruAttrs, s: Specs) -> Specs:
    step = step_spec(attrs, s)
    samples, units = step.shape
    return {"product": TensorSpec((samples, 3 * units), step.dtype), "state": step}


def forward(
    attrs: GruAttrs,
    *,
    x: Array,
    w: Array,
    r: Array,
    b: Array,
    c: Array,
    h: Array | None = None,
    y: Array,
    gates: Array,
    inner: Array,
    product: Array,
    state: Array,
) -> None:
    units = y.shape[-1]
    two = 2 * units  # columns of the update and the reset gate
    np.matmul(rows(x), w.T, out=rows(gates))
    np.add(gates, b, out=gates)
    first_two, last = product[:, :two], product[:, two:]
    if h is None:
        state.fill(0)
    else:
        np.copyto(state, h)
    steps = zip(*(by_time(attrs.time_axis, a) for a in (y, gates, inner)), strict=True)
    for y_now, gate, inner_now in steps:
        update, reset, new = gate[:, :units], gate[:, units:two], gate[:, two:]
        np.matmul(state, r[:two].T, out=first_two)
        np.add(first_two, c[:two], out=first_two)
        np.add(gate[:, :two], first_two, out=gate[:, :two])
        sigmoid(gate[:, :two])
        if attrs.reset_after:
            np.matmul(state, r[two:].T, out=last)
            np.add(last, c[two:], out=last)
            np.copyto(inner_now, last)
            np.multiply(last, reset, out=last)
        else:
            np.multiply(reset, state, out=inner_now)
            np.matmul(inner_now, r[two:].T, out=last)
            np.add(last, c[two:], out=last)
        np.add(new, last, out=new)
        np.tanh(new, out=new)
        np.subtract(state, new, out=y_now)
        np.multiply(y_now, update, out=y_now)
        np.add(y_now, new, out=y_now)
        np.copyto(state, y_now)


def shared(attrs: GruAttrs, s: Specs) -> Specs:
    """Returns the gradients of the gates' arguments, of the products with r, and of h."""
    gates = aux(attrs, s)["gates"]
    return {"dz": gates, "dp": gates, "before": s["y"], "dstate": step_spec(attrs, s)}


def back_scratch(attrs: GruAttrs, s: Specs) -> Specs:
    step = step_spec(attrs, s)
    return {"part": step, "work": step}


def backward(
    attrs: GruAttrs,
    *,
    dy: Array,
    y: Array,
    gates: Array,
    inner: Array,
    r: Array,
    h: Array | None = None,
    dz: Array,
    dp: Array,
    before: Array,
    dstate: Array,
    part: Array,
    work: Array,
) -> None:
    units = y.shape[-1]
    two = 2 * units  # columns of the update and the reset gate
    states = by_time(attrs.time_axis, before)
    states[1:] = by_time(attrs.time_axis, y)[:-1]
    states[:1] = 0 if h is None else h
    dstate.fill(0)
    arrays = [by_time(attrs.time_axis, a) for a in (dy, gates, inner, dz, dp, before)]
    for t in reversed(range(len(states))):
        d_now, gate, inner_now, dgate, dproduct, state = (a[t] for a in arrays)
        update, reset, new = gate[:, :units], gate[:, units:two], gate[:, two:]
        d_update, d_reset, d_new = dgate[:, :units], dgate[:, units:two], dgate[:, two:]
        np.add(dstate, d_now, out=dstate)
        np.subtract(state, new, out=d_update)
        np.multiply(d_update, dstate, out=d_update)
        times_sigmoid_slope(update, d_update, work)
        np.subtract(1, update, out=d_new)
        np.multiply(d_new, dstate, out=d_new)
        times_slope(TANH, new, d_new, work)
        np.multiply(dstate, update, out=dstate)
        d_last = dproduct[:, two:]
        if attrs.reset_after:
            np.multiply(d_new, inner_now, out=d_reset)
            np.multiply(d_new, reset, out=d_last)
        else:
            np.copyto(d_last, d_new)
            np.matmul(d_last, r[two:], out=part)
            np.multiply(part, state, out=d_reset)
            np.multiply(part, reset, out=part)
            np.add(dstate, part, out=dstate)
        times_sigmoid_slope(reset, d_reset, work)
        np.copyto(dproduct[:, :two], dgate[:, :two])
        width = 3 * units if attrs.reset_after else two
        np.matmul(dproduct[:, :width], r[:width], out=part)
        np.add(dstate, part, out=dstate)


def grad_x(attrs: GruAttrs, *, dz: Array, w: Array, dx: Array) -> None:
    np.matmul(rows(dz), w, out=rows(dx))


def grad_w(attrs: GruAttrs, *, dz: Array, x: Array, dw: Array) -> None:
    np.matmul(rows(dz).T, rows(x), out=dw)


def grad_r(attrs: GruAttrs, *, dp: Array, before: Array, inner: Array, dr: Array) -> None:
    two = 2 * before.shape[-1]
    factor = before if attrs.reset_after else inner
    np.matmul(rows(dp)[:, :two].T, rows(before), out=dr[:two])
    np.matmul(rows(dp)[:, two:].T, rows(factor), out=dr[two:])


def grad_b(attrs: GruAttrs, *, dz: Array, db: Array) -> None:
    np.sum(rows(dz), axis=0, out=db)


def grad_c(attrs: GruAttrs, *, dp: Array, dc: Array) -> None:
    np.sum(rows(dp), axis=0, out=dc)


def grad_h(attrs: GruAttrs, *, dstate: Array, dh: Array) -> None:
    sum_to(dstate, dh)


OP = OpDef(
    "CUSTOM:GRU",
    inputs=("x", "w", "r", "b", "c", "h?"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x", "w", "r", "b", "c", "h?"),
        writes=("y", "gates", "inner"),
        workspace=scratch,
        compiled=compiled.GRU,
    ),
    backward=Kernel(
        backward,
        reads=("dy", "y", "gates", "inner", "r", "h?"),
        writes=("dz", "dp", "before", "dstate"),
        workspace=back_scratch,
        compiled=compiled.GRU_BACK,
    ),
    aux=aux,
    shared=shared,
    grads={
        "x": Kernel(grad_x, reads=("dz", "w"), writes=("dx",), compiled=compiled.BY_X),
        "w": Kernel(
            grad_w, reads=("dz", "x"), writes=("dw",), compiled=compiled.by_weights("x", 0)
        ),
        "r": Kernel(
            grad_r,
            reads=("dp", "before", "inner"),
            writes=("dr",),
            compiled=compiled.by_products(compiled.by_weights("before", 0), "inner"),
        ),
        "b": Kernel(grad_b, reads=("dz",), writes=("db",), compiled=compiled.by_bias(0)),
        "c": Kernel(
            grad_c,
            reads=("dp",),
            writes=("dc",),
            compiled=compiled.by_products(compiled.by_bias(0)),
        ),
        "h": Kernel(grad_h, reads=("dstate",), writes=("dh",)),
    },
    attrs=attrs,
    mixes_samples=mixes_samples,
    batch_first=batch_first,
    flops=flops,
    arithmetic=Arithmetic.DENSE,
)
