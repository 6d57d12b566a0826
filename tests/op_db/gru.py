"""CUSTOM:GRU: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import FLOAT64, OpInfo, Options, Refusal, Sample, between
from op_db.support.recurrent import along_time


def sigmoid(a: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-a)))


def gru(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, r = along_time(o, i["x"]), i["r"]
    units = r.shape[1]
    h = i.get("h", np.zeros((x.shape[1], units), x.dtype))
    wu, wg, wn = np.split(i["w"], 3)
    ru, rg, rn = np.split(r, 3)
    bu, bg, bn = np.split(i["b"], 3)
    cu, cg, cn = np.split(i["c"], 3)
    steps = []
    for now in x:
        u = sigmoid(now @ wu.T + bu + h @ ru.T + cu)
        g = sigmoid(now @ wg.T + bg + h @ rg.T + cg)
        if o.get("reset_after", False):
            n = np.tanh(now @ wn.T + bn + g * (h @ rn.T + cn))
        else:
            n = np.tanh(now @ wn.T + bn + (g * h) @ rn.T + cn)
        h = (1 - u) * n + u * h
        steps.append(h)
    return {"y": along_time(o, np.stack(steps))}


WEIGHTS = ("w", "r", "b", "c")


def inputs(
    x: tuple[int, ...], units: int, state: bool = False, time_axis: int = 1
) -> Mapping[str, tuple[int, ...]]:
    three = 3 * units
    shapes = {"x": x, "w": (three, x[2]), "r": (three, units), "b": (three,), "c": (three,)}
    return {**shapes, "h": (x[1 - time_axis], units)} if state else shapes


def sample(
    label: str, x: tuple[int, ...], units: int, *, state: bool = False, after: bool = False
) -> Sample:
    return Sample(label, inputs(x, units, state), {"reset_after": after}, constants=WEIGHTS)


X = (2, 4, 3)
FIVE = inputs(X, 5, state=True)
INFO = OpInfo(
    "CUSTOM:GRU",
    gru,
    samples=(
        sample("reset before", X, 2),
        sample("reset after", X, 2, after=True),
        sample("reset before, with a state", X, 2, state=True),
        sample("reset after, with a state", X, 2, state=True, after=True),
        sample("one step", (3, 1, 2), 4, state=True),
        Sample(
            "a state that samples share",
            {**inputs(X, 2), "h": (1, 2)},
            {"reset_after": True},
            constants=(*WEIGHTS, "h"),
        ),
        sample("one of all", (1, 1, 1), 1, after=True),
        Sample(
            "time first",
            inputs((4, 2, 3), 2, state=True, time_axis=0),
            {"time_major": True, "reset_after": True},
            constants=WEIGHTS,
            mixes=True,
            rebatches=False,
        ),
    ),
    large=sample("large", (64, 32, 64), 128, after=True),
    also_large=(
        sample("large, reset before", (64, 32, 64), 128, state=True),
        sample("large, blocks of samples", (98, 32, 9), 20, state=True, after=True),
        sample("large, long sequences", (20, 170, 24), 36, after=True),
        sample("large, few samples", (3, 8, 64), 252, state=True, after=True),
        sample("large, one sample", (1, 9, 200), 272, after=True),
        sample("large, one sample, units that fill no vector", (1, 10, 150), 253, after=True),
        sample("large, two samples", (2, 9, 120), 256, state=True, after=True),
        sample("large, weights beyond a cache", (70, 3, 16), 304, state=True, after=True),
        Sample(
            "large, time first",
            inputs((16, 64, 32), 64, state=True, time_axis=0),
            {"time_major": True, "reset_after": True},
            constants=WEIGHTS,
            mixes=True,
            rebatches=False,
        ),
    ),
    refusals=(
        Refusal("x must be (N, T, I)", {**FIVE, "x": (2, 3)}),
        Refusal("r must be (15, 5)", {**FIVE, "r": (10, 5)}),
        Refusal("w must be (15, 3)", {**FIVE, "w": (15, 4)}),
        Refusal("b must be (15,)", {**FIVE, "b": (5,)}),
        Refusal("c must be (15,) float32", {**FIVE, "c": TensorSpec((15,), FLOAT64)}),
        Refusal("h must be (2, 5)", {**FIVE, "h": (4, 5)}),
        Refusal("h must be (1, 5) float32", {**FIVE, "h": TensorSpec((1, 5), FLOAT64)}),
    ),
    draws={"r": between(-0.3, 0.3), "w": between(-0.3, 0.3)},
    loose=16,
)
