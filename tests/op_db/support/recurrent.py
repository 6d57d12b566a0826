"""Recurrent operators, step by step."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import Options, Refusal, Sample, between

RELU = 1
RELU_N1_TO_1 = 2
RELU6 = 3
TANH = 4


def activation(o: Options, a: Array) -> Array:
    code = o.get("fused_activation_function", 0)
    if code == TANH:
        return np.tanh(a)
    bounds = {0: (None, None), RELU: (0, None), RELU_N1_TO_1: (-1, 1), RELU6: (0, 6)}[code]
    return a if code == 0 else np.clip(a, *bounds)


def along_time(o: Options, x: Array) -> Array:
    """Turns (N, T, …) into (T, N, …) and back."""
    return x if o.get("time_major", False) else np.swapaxes(x, 0, 1)


def sigmoid(a: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-a)))


def lstm(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": stateful_lstm(o, i)["y"]}


def stateful_lstm(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    """Gate by gate; what is absent is a product with zero."""
    x = along_time(o, i["x"]) if i["x"].ndim == 3 else i["x"][np.newaxis]
    units, out = i["rf"].shape
    h = i.get("h", 0) + np.zeros((x.shape[1], out), x.dtype)
    c = i.get("c", 0) + np.zeros((x.shape[1], units), x.dtype)

    def before(gate: str, now: Array, cell: Array) -> Array:
        sums = now @ i[f"w{gate}"].T + h @ i[f"r{gate}"].T + i.get(f"p{gate}", 0) * cell
        if f"n{gate}" in i:
            variance = sums.var(axis=-1, keepdims=True)
            sums = (sums - sums.mean(axis=-1, keepdims=True)) / np.sqrt(variance + 1e-8)
        return np.asarray(sums * i.get(f"n{gate}", 1) + i[f"b{gate}"])

    steps = []
    for now in x:
        forget = sigmoid(before("f", now, c))
        gate = sigmoid(before("i", now, c)) if "wi" in i else 1 - forget
        new = forget * c + gate * activation(o, before("g", now, c))
        c = np.clip(new, -o["cell_clip"], o["cell_clip"]) if o.get("cell_clip") else new
        h = sigmoid(before("o", now, c)) * activation(o, c)
        if "wp" in i:
            h = h @ i["wp"].T + i.get("bp", 0)
            h = np.clip(h, -o["proj_clip"], o["proj_clip"]) if o.get("proj_clip") else h
        steps.append(h)
    y = np.stack(steps)
    return {"y": along_time(o, y) if i["x"].ndim == 3 else y[0], "last": c}


def lstm_inputs(
    x: tuple[int, ...],
    units: int,
    out: int = 0,
    gates: str = "fgoi",
    peepholes: bool = False,
    norm: bool = False,
) -> dict[str, tuple[int, ...]]:
    """Shapes; with `out` there is a projection, with bias; without gate i it is coupled."""
    found = {"x": x}
    for gate in gates:
        found[f"w{gate}"] = (units, x[-1])
        found[f"r{gate}"] = (units, out or units)
        found[f"b{gate}"] = (units,)
        if peepholes and gate != "g":
            found[f"p{gate}"] = (units,)
        if norm:
            found[f"n{gate}"] = (units,)
    return found | ({"wp": (out, units), "bp": (out,)} if out else {})


def lstm_sample(label: str, inputs: Mapping[str, tuple[int, ...]], **o: float) -> Sample:
    o = {"fused_activation_function": TANH, **o}
    weights = tuple(n for n in inputs if n != "x")
    return Sample(label, inputs, o, constants=weights, mixes=bool(o.get("time_major", False)))


def lstm_refusal(
    words: str, inputs: Mapping[str, tuple[int, ...] | TensorSpec], **o: float
) -> Refusal:
    return Refusal(words, inputs, {"fused_activation_function": TANH, **o})


X = (2, 4, 3)
LSTM = lstm_inputs(X, 5)
EVERYTHING = lstm_inputs(X, 4, 2, peepholes=True)
CLIPS = {"cell_clip": 0.3, "proj_clip": 0.4}
NORMED = lstm_inputs(X, 4, 2, peepholes=True, norm=True)
INSIDE = {n: between(-0.6, 0.6) for n in NORMED}
