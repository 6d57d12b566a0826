"""Recurrent operators, one step after the other as their definitions have it."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.opdef import Array, TensorSpec
from op_db import OpInfo, Options, Refusal, Sample, between

RELU, RELU_N1_TO_1, RELU6, TANH = 1, 2, 3, 4
FLOAT64 = np.dtype(np.float64)


def activation(o: Options, a: Array) -> Array:
    code = o.get("fused_activation_function", 0)
    if code == TANH:
        return np.tanh(a)
    bounds = {0: (None, None), RELU: (0, None), RELU_N1_TO_1: (-1, 1), RELU6: (0, 6)}[code]
    return a if code == 0 else np.clip(a, *bounds)


def along_time(o: Options, x: Array) -> Array:
    """Turns (N, T, …) into (T, N, …) and back."""
    return x if o.get("time_major", False) else np.swapaxes(x, 0, 1)


def rnn(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x = along_time(o, i["x"])
    h = np.zeros((x.shape[1], len(i["b"])), x.dtype)
    steps = []
    for now in x:
        h = activation(o, now @ i["w"].T + h @ i["r"].T + i["b"])
        steps.append(h)
    return {"y": along_time(o, np.stack(steps))}


RNN_WEIGHTS = ("w", "r", "b")


def rnn_inputs(x: tuple[int, ...], units: int) -> Mapping[str, tuple[int, ...]]:
    return {"x": x, "w": (units, x[2]), "r": (units, units), "b": (units,)}


def rnn_sample(label: str, code: int, x: tuple[int, ...] = (2, 4, 3), units: int = 2) -> Sample:
    o = {"fused_activation_function": code}
    return Sample(label, rnn_inputs(x, units), o, constants=RNN_WEIGHTS)


def sigmoid(a: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-a)))


def lstm(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    """Gate by gate; what is absent is a product with zero."""
    x = along_time(o, i["x"]) if i["x"].ndim == 3 else i["x"][np.newaxis]
    units, out = i["rf"].shape
    h = np.zeros((x.shape[1], out), x.dtype)
    c = np.zeros((x.shape[1], units), x.dtype)

    def before(gate: str, now: Array, cell: Array) -> Array:
        sums = now @ i[f"w{gate}"].T + h @ i[f"r{gate}"].T + i[f"b{gate}"]
        return np.asarray(sums + i.get(f"p{gate}", 0) * cell)

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
    return {"y": along_time(o, y) if i["x"].ndim == 3 else y[0]}


def lstm_inputs(
    x: tuple[int, ...], units: int, out: int = 0, gates: str = "fgoi", peepholes: bool = False
) -> dict[str, tuple[int, ...]]:
    """Shapes; with `out` there is a projection, with bias; without gate i it is coupled."""
    found = {"x": x}
    for gate in gates:
        found[f"w{gate}"] = (units, x[-1])
        found[f"r{gate}"] = (units, out or units)
        found[f"b{gate}"] = (units,)
        if peepholes and gate != "g":
            found[f"p{gate}"] = (units,)
    return found | ({"wp": (out, units), "bp": (out,)} if out else {})


def lstm_sample(label: str, inputs: Mapping[str, tuple[int, ...]], **o: float) -> Sample:
    o = {"fused_activation_function": TANH, **o}
    weights = tuple(n for n in inputs if n != "x")
    return Sample(label, inputs, o, constants=weights, mixes=bool(o.get("time_major", False)))


def lstm_refusal(
    words: str, inputs: Mapping[str, tuple[int, ...] | TensorSpec], **o: float
) -> Refusal:
    return Refusal(words, inputs, {"fused_activation_function": TANH, **o})


def without(inputs: Mapping[str, tuple[int, ...]], *names: str) -> dict[str, tuple[int, ...]]:
    return {n: shape for n, shape in inputs.items() if n not in names}


X = (2, 4, 3)
RNN = rnn_inputs(X, 5)
LSTM = lstm_inputs(X, 5)
EVERYTHING = lstm_inputs(X, 4, 2, peepholes=True)
COUPLED = lstm_inputs(X, 4, 2, "fgo", peepholes=True)
CLIPS = {"cell_clip": 0.3, "proj_clip": 0.4}
INSIDE = {n: between(-0.6, 0.6) for n in EVERYTHING}
ROWS: tuple[OpInfo, ...] = (
    OpInfo(
        "UNIDIRECTIONAL_SEQUENCE_RNN",
        rnn,
        samples=(
            rnn_sample("tanh", TANH),
            rnn_sample("linear", 0),
            rnn_sample("relu", RELU),
            rnn_sample("relu_n1_to_1", RELU_N1_TO_1),
            rnn_sample("relu6", RELU6),
            rnn_sample("one step", TANH, (3, 1, 2)),
            rnn_sample("one of all", TANH, (1, 1, 1), 1),
            Sample(
                "time first",
                rnn_inputs((4, 2, 3), 2),
                {"fused_activation_function": TANH, "time_major": True},
                constants=RNN_WEIGHTS,
                mixes=True,
            ),
        ),
        large=Sample(
            "large",
            rnn_inputs((64, 32, 64), 128),
            {"fused_activation_function": TANH},
            constants=RNN_WEIGHTS,
        ),
        also_large=(
            Sample(
                "large, time first",
                rnn_inputs((8, 256, 64), 128),
                {"fused_activation_function": TANH, "time_major": True},
                constants=RNN_WEIGHTS,
            ),
        ),
        refusals=(
            Refusal("x must be (N, T, I)", {**RNN, "x": (2, 3)}),
            Refusal("x must be (N, T, I)", {**RNN, "w": (5, 3, 1)}),
            Refusal("w must be (5, 3)", {**RNN, "w": (5, 4)}),
            Refusal("r must be (5, 5)", {**RNN, "r": (5, 3)}),
            Refusal("b must be (5,)", {**RNN, "b": (1, 5)}),
            Refusal("b must be (5,) float32", {**RNN, "b": TensorSpec((5,), FLOAT64)}),
            Refusal("fused_activation_function", RNN, {"fused_activation_function": 5}),
        ),
        draws={"r": between(-0.3, 0.3), "w": between(-0.3, 0.3)},
        loose=16,
    ),
    OpInfo(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        lstm,
        samples=(
            lstm_sample("plain", lstm_inputs(X, 2)),
            lstm_sample("peepholes", lstm_inputs(X, 2, peepholes=True)),
            lstm_sample("projection", lstm_inputs(X, 3, 2)),
            lstm_sample(
                "projection of one width without bias", without(lstm_inputs(X, 2, 2), "bp")
            ),
            lstm_sample("coupled", lstm_inputs(X, 2, gates="fgo")),
            lstm_sample("coupled, peepholes", lstm_inputs(X, 2, gates="fgo", peepholes=True)),
            lstm_sample("all", EVERYTHING, **CLIPS),
            lstm_sample("all, coupled", COUPLED, **CLIPS),
            lstm_sample("cell clip", lstm_inputs(X, 3), cell_clip=0.2),
            lstm_sample("relu", lstm_inputs(X, 2), fused_activation_function=RELU),
            lstm_sample("relu6", lstm_inputs(X, 2, gates="fgo"), fused_activation_function=RELU6),
            lstm_sample("one step", lstm_inputs((3, 1, 2), 2, peepholes=True)),
            lstm_sample("time first", lstm_inputs(X, 2), time_major=True),
            lstm_sample("all, time first", EVERYTHING, **CLIPS, time_major=True),
        ),
        large=lstm_sample("large", lstm_inputs((64, 16, 32), 64)),
        also_large=(
            lstm_sample("large, time first", lstm_inputs((16, 64, 32), 64), time_major=True),
            lstm_sample("large, all", lstm_inputs((256, 4, 32), 64, 32, peepholes=True)),
        ),
        refusals=(
            lstm_refusal("x must be (N, T, I)", {**LSTM, "x": (2, 3)}),
            lstm_refusal("wf and rf must be matrices", {**LSTM, "rf": (5,)}),
            lstm_refusal("wo must be (5, 3)", {**LSTM, "wo": (5, 4)}),
            lstm_refusal("ri must be (5, 5)", {**LSTM, "ri": (5, 3)}),
            lstm_refusal("bg must be (5,) float32", {**LSTM, "bg": TensorSpec((5,), FLOAT64)}),
            lstm_refusal("pi must be (4,)", {**EVERYTHING, "pi": (5,)}),
            lstm_refusal("wp must be (2, 4)", {**EVERYTHING, "wp": (4, 2)}),
            lstm_refusal("bp must be (2,)", {**EVERYTHING, "bp": (4,)}),
            lstm_refusal("without a projection", without(EVERYTHING, "wp", "bp")),
            lstm_refusal("all or none of wp, bp", without(EVERYTHING, "wp")),
            lstm_refusal("all or none of wi, ri, bi", without(LSTM, "bi")),
            lstm_refusal("all or none of wi, ri, bi, pi", {**COUPLED, "pi": (4,)}),
            lstm_refusal("all or none of pf, po, pi", without(EVERYTHING, "po")),
            lstm_refusal("the inputs rg, bo", without(LSTM, "rg", "bo")),
            lstm_refusal("layer normalization", {**LSTM, "nf": (5,)}),
            lstm_refusal("fused_activation_function", LSTM, fused_activation_function=6),
            lstm_refusal("got 0 (NONE)", LSTM, fused_activation_function=0),
            lstm_refusal("must be matrices", LSTM, diagonal_recurrent_tensors=1),
        ),
        draws=INSIDE,
        loose=16,
    ),
    OpInfo(
        "LSTM",
        lstm,
        samples=(
            lstm_sample("plain", lstm_inputs((3, 4), 2)),
            lstm_sample("all", lstm_inputs((3, 4), 4, 2, peepholes=True), **CLIPS),
            lstm_sample("all, coupled", lstm_inputs((3, 4), 2, 2, "fgo", peepholes=True), **CLIPS),
        ),
        large=lstm_sample("large", lstm_inputs((512, 64), 64)),
        refusals=(
            lstm_refusal("x must be (N, I)", LSTM),
            lstm_refusal("kernel_type must be FULL", lstm_inputs((3, 4), 2), kernel_type=1),
        ),
        draws=INSIDE,
        loose=16,
    ),
)
