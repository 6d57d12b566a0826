"""Gradients of the LSTM by backpropagation through time, and the row of its operators.

From the last step to the first, where dfₜ, dgₜ, doₜ, diₜ are the gradients by the arguments of σ
and φ, stored in dzₜ:

dhₜ = dyₜ + dzₜ₊₁ r         dmₜ = dhₜ wp, or dhₜ
doₜ = dmₜ φ(cₜ) o (1 − o)   dcₜ = dmₜ o φ′(cₜ) + po doₜ + dcₜ₊₁ fₜ₊₁ + pi diₜ₊₁ + pf dfₜ₊₁
diₜ = dcₜ g i (1 − i)       dgₜ = dcₜ i φ′(g)       dfₜ = dcₜ cₜ₋₁ f (1 − f)

With layer normalization these are gradients by n ẑ + b, stored in daₜ, and those by z are
dz = (n da − mean(n da) − ẑ mean(n da ẑ)) / √(var z + ε)

A coupled input gate, i = 1 − f, has no dz; the factor cₜ₋₁ in dfₜ becomes cₜ₋₁ − g. The weight
gradients are then single products over all steps.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from odt.kernels.families.bias import sum_rows
from odt.kernels.families.lstm import (
    BIASES,
    INPUTS,
    NORMS,
    PEEPHOLES,
    R,
    W,
    aux,
    backward_work,
    before_norm,
    forward,
    forward_work,
    hidden,
    infer,
    mixes_samples,
    names_of,
    part,
    shared,
    stack,
    stacked_r,
    stacked_w,
)
from odt.kernels.families.recurrent import (
    activate,
    batch_first,
    before_each_step,
    by_time,
    flops,
    inside,
    rows,
    state_before,
    sum_to,
    times_sigmoid_slope,
    times_slope,
)
from odt.kernels.geometry.recurrent_geometry import CELL, FORGET, GATES, INPUT, OUTPUT, LstmAttrs
from odt.kernels.native import recurrent as compiled
from odt.kernels.native.binding import in_order
from odt.kernels.native.copies import copy
from odt.kernels.rows.opdef import (
    Arithmetic,
    Array,
    Attrs,
    Compiled,
    Kernel,
    OpDef,
    Specs,
    TensorSpec,
    no_specs,
)
from odt.kernels.rows.quantizeddef import QuantizedDef

Workspace = Callable[[Attrs, Specs], Specs]


def backward(
    attrs: LstmAttrs,
    *,
    dy: Array,
    gates: Array,
    cells: Array,
    dz: Array,
    r: Array,
    work: Array,
    dh: Array,
    means: Array,
    y: Array | None = None,
    dp: Array | None = None,
    da: Array | None = None,
    normal: Array | None = None,
    spread: Array | None = None,
    dlast: Array | None = None,
    dstate: Array | None = None,
    **weights: Array,
) -> None:
    """Computes dz, da and dp, the gradient by the projected output, from last to first step.

    dlast is the gradient by the cell after the last step; dstate becomes that by the cell before
    the first step.
    """
    stack(r, "r", weights)
    axis = attrs.time_axis
    norms_by_time = [by_time(axis, a) for a in (normal, spread, da) if a is not None]
    z, c, d, dzs = (by_time(axis, a) for a in (gates, cells, dy, dz))
    dm, dc = work[:2]
    np.copyto(dc, 0 if dlast is None else dlast)
    for t in reversed(range(len(z))):
        dh_now = dh[0] if dp is None else by_time(axis, dp)[t]
        np.copyto(dh_now, d[t])
        if t + 1 < len(z):
            np.matmul(dzs[t + 1], r, out=dh[1])
            np.add(dh_now, dh[1], out=dh_now)
        if dp is None:
            np.copyto(dm, dh_now)
        else:
            if attrs.proj_clip:
                assert y is not None, "the kernel reads y"
                inside(by_time(axis, y)[t], -attrs.proj_clip, attrs.proj_clip, dh_now, dh[1])
            np.matmul(dh_now, weights["wp"], out=dm)
        step_back(
            attrs,
            z[t],
            c[t - 1] if t else weights.get("c"),
            c[t],
            dzs[t],
            work,
            weights,
            [*(a[t] for a in norms_by_time), means],
        )
    if dstate is not None:
        np.copyto(dstate, dc)


def step_back(
    attrs: LstmAttrs,
    z: Array,
    c: Array | None,
    c_now: Array,
    dz: Array,
    work: Array,
    weights: Mapping[str, Array],
    norms: Sequence[Array],
) -> None:
    """Computes dz of a step; dz may alias z: a gate is read before its gradient is written.

    Args:
        work: dm of this step; dc from the later steps, which is replaced by dc for the step before;
            the others are scratch.
        norms: normal, spread and da of the step with layer normalization, and scratch.
    """
    dm, dc, df, dg, di, e, i = work
    units = c_now.shape[-1]
    f, g, o = (part(z, k, units) for k in range(3))
    np.copyto(e, c_now)
    activate(attrs.activation, e)  # φ(c)
    np.multiply(dm, o, out=df)
    times_slope(attrs.activation, e, df, dg)
    np.add(dc, df, out=dc)
    np.multiply(dm, e, out=dm)
    times_sigmoid_slope(o, dm, e)
    before_norm(OUTPUT, dm, e, weights, norms)
    np.copyto(part(dz, OUTPUT, units), dm)
    if "po" in weights:
        np.multiply(dm, weights["po"], out=e)
        np.add(dc, e, out=dc)
    if attrs.cell_clip:
        inside(c_now, -attrs.cell_clip, attrs.cell_clip, dc, e)
    coupled = z.shape[-1] == 3 * units
    if coupled:
        np.subtract(1, f, out=i)
    else:
        np.copyto(i, part(z, INPUT, units))
        np.multiply(dc, g, out=di)
        times_sigmoid_slope(i, di, e)
        before_norm(INPUT, di, e, weights, norms)
        np.copyto(part(dz, INPUT, units), di)
    if c is None:
        df.fill(0)
    else:
        np.copyto(df, c)
    if coupled:
        np.subtract(df, g, out=df)
    np.multiply(df, dc, out=df)
    times_sigmoid_slope(f, df, e)
    before_norm(FORGET, df, e, weights, norms)
    np.multiply(dc, i, out=dg)
    times_slope(attrs.activation, g, dg, e)
    before_norm(CELL, dg, e, weights, norms)
    np.copyto(part(dz, CELL, units), dg)
    np.multiply(dc, f, out=dc)
    np.copyto(part(dz, FORGET, units), df)
    if "pf" in weights:
        np.multiply(df, weights["pf"], out=e)
        np.add(dc, e, out=dc)
        if not coupled:
            np.multiply(di, weights["pi"], out=e)
            np.add(dc, e, out=dc)


def grad_x(attrs: LstmAttrs, *, dz: Array, dx: Array, w: Array, **weights: Array) -> None:
    stack(w, "w", weights)
    np.matmul(rows(dz), w, out=rows(dx))


def grad_w(gate: int, attrs: LstmAttrs, *, dz: Array, x: Array, **dw: Array) -> None:
    (out,) = dw.values()
    np.matmul(part(rows(dz), gate, len(out)).T, rows(x), out=out)


def grad_r(
    gate: int,
    attrs: LstmAttrs,
    *,
    dz: Array,
    y: Array,
    before: Array,
    h: Array | None = None,
    **dr: Array,
) -> None:
    (out,) = dr.values()
    state_before(attrs.time_axis, y, before)
    if h is not None:
        np.copyto(by_time(attrs.time_axis, before)[0], h)
    np.matmul(part(rows(dz), gate, len(out)).T, rows(before), out=out)


def grad_b(
    gate: int, attrs: LstmAttrs, *, dz: Array, ones: Array, da: Array | None = None, **db: Array
) -> None:
    (out,) = db.values()
    sum_rows(part(rows(dz if da is None else da), gate, len(out)), ones, out)


def grad_n(gate: int, attrs: LstmAttrs, *, da: Array, normal: Array, **dn: Array) -> None:
    (out,) = dn.values()
    parts = (part(rows(a), gate, len(out)) for a in (da, normal))
    np.einsum("ro,ro->o", *parts, out=out)


def grad_peephole(
    gate: int,
    attrs: LstmAttrs,
    *,
    dz: Array,
    cells: Array,
    first: Array,
    c: Array | None = None,
    **dp: Array,
) -> None:
    """Computes a peephole's gradient: o reads the cell of a step, f and i the one before."""
    (out,) = dp.values()
    d = part(by_time(attrs.time_axis, dz), gate, len(out))
    cell = by_time(attrs.time_axis, cells)
    if gate == OUTPUT:
        np.einsum("tno,tno->o", d, cell, out=out)
        return
    np.einsum("tno,tno->o", d[1:], cell[:-1], out=out)
    if c is not None:
        np.einsum("no,no->o", d[0], np.broadcast_to(c, d[0].shape), out=first)
        np.add(out, first, out=out)


def grad_h(
    attrs: LstmAttrs, *, dz: Array, dh: Array, r: Array, part: Array, **weights: Array
) -> None:
    stack(r, "r", weights)
    sum_to(by_time(attrs.time_axis, dz)[0], part)
    np.matmul(part, r, out=dh)


def grad_c(attrs: LstmAttrs, *, dstate: Array, dc: Array) -> None:
    sum_to(dstate, dc)


def grad_wp(
    attrs: LstmAttrs, *, dp: Array, gates: Array, cells: Array, m: Array, dwp: Array
) -> None:
    hidden(attrs, cells, part(gates, OUTPUT, cells.shape[-1]), m)
    np.matmul(rows(dp).T, rows(m), out=dwp)


def grad_bp(attrs: LstmAttrs, *, dp: Array, dbp: Array) -> None:
    np.sum(rows(dp), axis=0, out=dbp)


def call_grad_x(
    attrs: LstmAttrs,
    *,
    dz: Array,
    dx: Array,
    w: Array,
    panel: Array | None = None,
    **weights: Array,
) -> Callable[[], None]:
    parts = np.split(w, len(names_of(weights)))
    copies = [
        copy(weights[f"w{gate}"], a) for gate, a in zip(names_of(weights), parts, strict=True)
    ]
    return in_order([*copies, compiled.input_gradient(attrs, dz=dz, w=w, dx=dx, panel=panel)])


def by_gate(
    kind: str,
    run: Callable[..., None],
    *reads: str,
    workspace: Workspace = no_specs,
    compiled: Callable[[int], Compiled | None] = lambda gate: None,
) -> dict[str, Kernel]:
    """Makes the kernels of the gradients by one kind of weights, one for each gate."""
    return {
        f"{kind}{gate}": Kernel(
            partial(run, k), reads, (f"d{kind}{gate}",), workspace, compiled=compiled(k)
        )
        for k, gate in enumerate(GATES)
        if f"{kind}{gate}?" in INPUTS
    }


def one_per_row(attrs: LstmAttrs, s: Specs) -> Specs:
    return {"ones": TensorSpec((s["dz"].size // s["dz"].shape[-1],), s["dz"].dtype)}


def stacked_w_and_panel(attrs: LstmAttrs, s: Specs) -> Specs:
    return {**stacked_w(attrs, s), **compiled.input_panel(attrs, s)}


def one_step(attrs: LstmAttrs, s: Specs) -> Specs:
    return {"first": TensorSpec((s["cells"].shape[-1],), s["cells"].dtype)}


def state_work(attrs: LstmAttrs, s: Specs) -> Specs:
    rows = TensorSpec((s["h"].shape[0], s["dz"].shape[-1]), s["dz"].dtype)
    return {**stacked_r(attrs, s), "part": rows}


def hidden_like_cells(attrs: LstmAttrs, s: Specs) -> Specs:
    return {"m": s["cells"]}


def lstm_row(
    name: str, attrs: Callable[..., Attrs], quantized: QuantizedDef | None = None
) -> OpDef:
    """Makes the row of an operator; inputs except x are optional, `infer` reports missing ones.

    Kernels take initial states, which kernels/custom/statefullstm.py passes to them.
    """
    return OpDef(
        name,
        inputs=INPUTS,
        infer=infer,
        forward=Kernel(
            forward,
            reads=("x", *W, *R, *PEEPHOLES, *BIASES, *NORMS, "wp?", "bp?"),
            writes=("y", "gates", "cells", "normal?", "spread?"),
            workspace=forward_work,
            compiled=compiled.LSTM,
        ),
        aux=aux,
        backward=Kernel(
            backward,
            reads=(
                "dy",
                "y",
                "gates",
                "cells",
                *R,
                *PEEPHOLES,
                *NORMS,
                "wp?",
                "normal?",
                "spread?",
            ),
            writes=("dz", "dp?", "da?"),
            workspace=backward_work,
            compiled=compiled.LSTM_BACK,
            may_alias=frozenset({("dz", "gates"), ("dp", "dy")}),
        ),
        shared=shared,
        grads={
            "x": Kernel(
                grad_x,
                reads=("dz", *W),
                writes=("dx",),
                workspace=stacked_w,
                compiled=Compiled(call_grad_x, compiled.fits_input_gradient, stacked_w_and_panel),
            ),
            **by_gate("w", grad_w, "dz", "x", compiled=partial(compiled.by_weights, "x")),
            **by_gate(
                "r",
                grad_r,
                "dz",
                "y",
                workspace=before_each_step,
                compiled=partial(compiled.by_weights, "y"),
            ),
            **by_gate("p", grad_peephole, "dz", "cells", workspace=one_step),
            **by_gate("b", grad_b, "dz", "da?", workspace=one_per_row, compiled=compiled.by_bias),
            **by_gate("n", grad_n, "da", "normal"),
            "wp": Kernel(
                grad_wp,
                reads=("dp", "gates", "cells"),
                writes=("dwp",),
                workspace=hidden_like_cells,
            ),
            "bp": Kernel(grad_bp, reads=("dp",), writes=("dbp",)),
        },
        zero_state=("h", "c"),
        attrs=attrs,
        keeps_activation=True,
        mixes_samples=mixes_samples,
        batch_first=batch_first,
        flops=flops,
        arithmetic=Arithmetic.DENSE,
        quantized=quantized,
    )
