"""Long short-term memory (LSTM), over many steps or for one.

Gates: f forget, g cell, o output, i input. I input units, O cell units, P output units.
wf … (O, I)    rf … (O, P)    bf … (O,)    pf, po, pi (O,): peepholes, all or none
wp (P, O), bp (P,): the projection; without it P = O
nf … (O,): layer normalization, of all gates or none
Without wi, ri, bi and pi the input gate is coupled to the forget gate: i = 1 − f.

h (N, P) and c (N, O), or one row for all samples, are the states before the first step; without
them, and in the operators of TFLite, these are zero. σ is the logistic function, φ the fused
activation:
fₜ = σ(wf xₜ + rf hₜ₋₁ + pf cₜ₋₁ + bf)                 gₜ = φ(wg xₜ + rg hₜ₋₁ + bg)
iₜ = σ(wi xₜ + ri hₜ₋₁ + pi cₜ₋₁ + bi)                 oₜ = σ(wo xₜ + ro hₜ₋₁ + po cₜ + bo)
cₜ = fₜ cₜ₋₁ + iₜ gₜ, limited to ± cell_clip
mₜ = oₜ φ(cₜ)    hₜ = mₜ, or wp mₜ + bp limited to ± proj_clip; y = h

With layer normalization, σ and φ of a gate take n ẑ + b in place of the sum z with b, with
ẑ = (z − mean z) / √(var z + ε), ε = 10⁻⁸, over the units. `normal` holds ẑ, and `spread`
1 / √(var z + ε).

`gates` holds the gates f g o i side by side, `dz` their gradients before σ and φ in the same order.
Source: Hochreiter and Schmidhuber 1997; Gers and Schmidhuber 2000 for peepholes; Sak et al. 2014
for the projection; Greff et al. 2015 for the coupled gate; Ba et al. 2016 for layer normalization;
LSTMOptions in the TFLite schema.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.recurrent import (
    activate,
    by_time,
    check_state,
    fused,
    mixes_along_time,
    must_be,
    rows,
    sigmoid,
)
from odt.kernels.geometry.recurrent_geometry import CELL, FORGET, GATES, INPUT, OUTPUT, LstmAttrs
from odt.kernels.rows.opdef import Array, Names, Options, Specs, TensorSpec

INPUTS = (
    "x",
    *("wi?", "wf?", "wg?", "wo?"),
    *("ri?", "rf?", "rg?", "ro?"),
    *("pi?", "pf?", "po?"),
    *("bi?", "bf?", "bg?", "bo?"),
    *("wp?", "bp?"),
    *("h?", "c?"),
    *("ni?", "nf?", "ng?", "no?"),
)
W, R, PEEPHOLES = ("wf", "wg", "wo", "wi?"), ("rf", "rg", "ro", "ri?"), ("pf?", "po?", "pi?")
BIASES, NORMS = ("bf", "bg", "bo", "bi?"), ("nf?", "ng?", "no?", "ni?")
EPSILON = 1e-8


def lstm_attrs(options: Options, time_axis: int | None) -> LstmAttrs:
    if options.get("diagonal_recurrent_tensors", False):
        raise ShapeError("recurrent weights must be matrices, but got diagonal_recurrent_tensors")
    code = fused(options)
    if code == 0:
        raise ShapeError(
            "fused_activation_function must be 1 … 4 (RELU, RELU_N1_TO_1, RELU6, TANH), "
            "but got 0 (NONE), for which LiteRT leaves the cell out of the output"
        )
    clips = (max(float(options.get(n, 0)), 0.0) for n in ("cell_clip", "proj_clip"))
    return LstmAttrs(time_axis, code, *clips)


def infer(attrs: LstmAttrs, s: Specs) -> Specs:
    x = s["x"]
    _complete(s)
    lead = 1 if attrs.time_axis is None else 2
    if len(x.shape) != lead + 1 or x.dtype.kind != "f":
        axes = "(N, I)" if lead == 1 else "(N, T, I)"
        raise ShapeError(f"x must be {axes} floats, but got {x}")
    if len(s["wf"].shape) != 2 or len(s["rf"].shape) != 2:
        raise ShapeError(f"wf and rf must be matrices, but got {s['wf']} and {s['rf']}")
    width, units, out = x.shape[-1], s["wf"].shape[0], s["rf"].shape[1]
    for gate in GATES:
        must_be(s, f"w{gate}", units, width)
        must_be(s, f"r{gate}", units, out)
        must_be(s, f"p{gate}", units)
        must_be(s, f"b{gate}", units)
        must_be(s, f"n{gate}", units)
    must_be(s, "wp", out, units)
    must_be(s, "bp", out)
    check_state(s, "h", _samples(attrs, s), out)
    check_state(s, "c", _samples(attrs, s), units)
    if "wp" not in s and out != units:
        raise ShapeError(f"rf must be ({units}, {units}) without a projection, but got {s['rf']}")
    return {"y": TensorSpec((*x.shape[:-1], out), x.dtype)}


def _complete(s: Specs) -> None:
    """Raises ShapeError if the set of optional inputs is incomplete."""
    missing = [n for n in (*W, *R, *BIASES) if not n.endswith("?") and n not in s]
    if missing:
        raise ShapeError(f"must have the inputs {', '.join(missing)}, but got none")
    _together(s, "wi", "ri", "bi", *(n for n in ("pi", "ni") if n in s))
    _together(s, "pf", "po", *(["pi"] if "wi" in s else []))
    _together(s, "nf", "ng", "no", *(["ni"] if "wi" in s else []))
    if "bp" in s:
        _together(s, "wp", "bp")


def _together(s: Specs, *names: str) -> None:
    present = [n for n in names if n in s]
    if present and len(present) < len(names):
        raise ShapeError(
            f"must have all or none of {', '.join(names)}, but got only {', '.join(present)}"
        )


def mixes_samples(attrs: LstmAttrs, s: Specs, batched: Names) -> bool:
    return mixes_along_time(attrs.time_axis, batched - {"h", "c"} if "x" in batched else batched)


def names_of(weights: Mapping[str, object]) -> str:
    """Returns the gates that have weights."""
    return GATES if "wi" in weights or "ri" in weights else GATES[:3]


def part(a: Array, gate: int, units: int) -> Array:
    """Returns the part of one gate in an array with all gates side by side."""
    return a[..., gate * units : (gate + 1) * units]


def stack(out: Array, kind: str, weights: Mapping[str, Array]) -> None:
    """Concatenates the weights of one kind of all gates along axis 0."""
    np.concatenate([weights[kind + gate] for gate in names_of(weights)], out=out)


def _like(s: Specs, name: str, width: int) -> TensorSpec:
    return TensorSpec((*s[name].shape[:-1], width), s[name].dtype)


def aux(attrs: LstmAttrs, s: Specs) -> Specs:
    units = s["wf"].shape[0]
    wide = len(names_of(s)) * units
    specs = {"gates": _like(s, "y", wide), "cells": _like(s, "y", units)}
    if "nf" not in s:
        return specs
    return specs | {"normal": specs["gates"], "spread": _like(s, "y", wide // units)}


def shared(attrs: LstmAttrs, s: Specs) -> Specs:
    projected = {"dp": s["y"]} if "wp" in s else {}
    state = {"dstate": TensorSpec((_samples(attrs, s), s["wf"].shape[0]), s["x"].dtype)}
    normed = {"da": s["gates"]} if "nf" in s else {}
    return {"dz": s["gates"]} | projected | normed | (state if "c" in s else {})


def _samples(attrs: LstmAttrs, s: Specs) -> int:
    return s["x"].shape[1 if attrs.time_axis == 0 else 0]


def stacked_w(attrs: LstmAttrs, s: Specs) -> Specs:
    return {"w": TensorSpec((s["gates"].shape[-1], s["wf"].shape[1]), s["wf"].dtype)}


def stacked_r(attrs: LstmAttrs, s: Specs) -> Specs:
    return {"r": TensorSpec((s["gates"].shape[-1], s["rf"].shape[1]), s["rf"].dtype)}


def forward_work(attrs: LstmAttrs, s: Specs) -> Specs:
    work = TensorSpec((_samples(attrs, s), s["gates"].shape[-1]), s["x"].dtype)
    return {**stacked_w(attrs, s), **stacked_r(attrs, s), "work": work}


def backward_work(attrs: LstmAttrs, s: Specs) -> Specs:
    samples, (units, out) = _samples(attrs, s), s["rf"].shape
    return {
        **stacked_r(attrs, s),
        "work": TensorSpec((7, samples, units), s["x"].dtype),  # dm, dc and five more of a step
        "means": TensorSpec((2, samples if "nf" in s else 0, 1), s["x"].dtype),
        "dh": TensorSpec((2, samples, out), s["x"].dtype),
    }


def forward(
    attrs: LstmAttrs,
    *,
    x: Array,
    y: Array,
    gates: Array,
    cells: Array,
    w: Array,
    r: Array,
    work: Array,
    normal: Array | None = None,
    spread: Array | None = None,
    **weights: Array,
) -> None:
    units = cells.shape[-1]
    stack(w, "w", weights)
    stack(r, "r", weights)
    np.matmul(rows(x), w.T, out=rows(gates))
    for k, gate in enumerate(names_of(weights) if normal is None else ""):
        np.add(part(gates, k, units), weights[f"b{gate}"], out=part(gates, k, units))
    norms_by_time = () if normal is None or spread is None else (normal, spread)
    steps = zip(
        *(by_time(attrs.time_axis, a) for a in (gates, cells, y, *norms_by_time)), strict=True
    )
    h, c = weights.get("h"), weights.get("c")
    for z, c_now, h_now, *norms in steps:
        if h is not None:
            product = work[: len(h)]
            np.matmul(h, r.T, out=product)
            np.add(z, product, out=z)
        step(attrs, z, c, c_now, h_now, work, weights, norms)
        h, c = h_now, c_now


def step(
    attrs: LstmAttrs,
    z: Array,
    c: Array | None,
    c_now: Array,
    h_now: Array,
    work: Array,
    weights: Mapping[str, Array],
    norms: Sequence[Array],
) -> None:
    """Computes one step: gates in place, cell and output, from the products and the cell c."""
    units = c_now.shape[-1]
    f, g, o, i = (part(z, k, units) for k in range(4))
    scratch, other = part(work, 0, units), part(work, 1, units)
    if c is not None and "pf" in weights:
        np.multiply(c, weights["pf"], out=scratch)
        np.add(f, scratch, out=f)
        if i.size:
            np.multiply(c, weights["pi"], out=scratch)
            np.add(i, scratch, out=i)
    normalize(FORGET, f, weights, norms)
    sigmoid(f)
    normalize(CELL, g, weights, norms)
    activate(attrs.activation, g)
    if i.size:
        normalize(INPUT, i, weights, norms)
        sigmoid(i)
    else:
        i = other
        np.subtract(1, f, out=i)
    np.multiply(i, g, out=c_now)
    if c is not None:
        np.multiply(f, c, out=scratch)
        np.add(c_now, scratch, out=c_now)
    if attrs.cell_clip:
        np.clip(c_now, -attrs.cell_clip, attrs.cell_clip, out=c_now)
    if "po" in weights:
        np.multiply(c_now, weights["po"], out=scratch)
        np.add(o, scratch, out=o)
    normalize(OUTPUT, o, weights, norms)
    sigmoid(o)
    if "wp" not in weights:
        hidden(attrs, c_now, o, h_now)
        return
    hidden(attrs, c_now, o, scratch)
    np.matmul(scratch, weights["wp"].T, out=h_now)
    if "bp" in weights:
        np.add(h_now, weights["bp"], out=h_now)
    if attrs.proj_clip:
        np.clip(h_now, -attrs.proj_clip, attrs.proj_clip, out=h_now)


def normalize(gate: int, z: Array, weights: Mapping[str, Array], norms: Sequence[Array]) -> None:
    """Replaces the sums of a gate by n ẑ + b if there are `normal` and `spread` of the step."""
    if not norms:
        return
    normal, spread = part(norms[0], gate, z.shape[-1]), part(norms[1], gate, 1)
    np.mean(z, axis=-1, keepdims=True, out=spread)
    np.subtract(z, spread, out=normal)
    np.multiply(normal, normal, out=z)
    np.mean(z, axis=-1, keepdims=True, out=spread)
    np.add(spread, EPSILON, out=spread)
    np.sqrt(spread, out=spread)
    np.divide(1, spread, out=spread)
    np.multiply(normal, spread, out=normal)
    np.multiply(normal, weights[f"n{GATES[gate]}"], out=z)
    np.add(z, weights[f"b{GATES[gate]}"], out=z)


def before_norm(
    gate: int, d: Array, work: Array, weights: Mapping[str, Array], norms: Sequence[Array]
) -> None:
    """Keeps the gradient da of a gate, and replaces it by dz, if there is layer normalization."""
    *saved, (mean, other) = norms
    if not saved:
        return
    normal, da = (part(a, gate, d.shape[-1]) for a in saved[::2])
    np.copyto(da, d)
    np.multiply(d, weights[f"n{GATES[gate]}"], out=d)
    np.mean(d, axis=-1, keepdims=True, out=mean)
    np.multiply(d, normal, out=work)
    np.mean(work, axis=-1, keepdims=True, out=other)
    np.multiply(normal, other, out=work)
    np.subtract(d, work, out=d)
    np.subtract(d, mean, out=d)
    np.multiply(d, part(saved[1], gate, 1), out=d)


def hidden(attrs: LstmAttrs, c: Array, o: Array, out: Array) -> None:
    """Computes m = o φ(c)."""
    np.copyto(out, c)
    activate(attrs.activation, out)
    np.multiply(out, o, out=out)
