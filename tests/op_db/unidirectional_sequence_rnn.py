"""UNIDIRECTIONAL_SEQUENCE_RNN: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import FLOAT64, OpInfo, Options, Refusal, Sample, between
from op_db.support.recurrent import RELU, RELU6, RELU_N1_TO_1, TANH, X, activation, along_time


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


RNN = rnn_inputs(X, 5)
INFO = OpInfo(
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
    large=rnn_sample("large", TANH, (64, 32, 64), 128),
    also_large=(
        rnn_sample("large, blocks of samples", TANH, (134, 52, 9), 30),
        rnn_sample("large, one sample", TANH, (1, 9, 200), 440),
        rnn_sample("large, few samples", RELU6, (3, 4, 64), 512),
        rnn_sample("large, weights beyond a cache", RELU, (70, 3, 16), 528),
        rnn_sample("large, long sequences", TANH, (40, 300, 20), 9),
        rnn_sample("large, linear", 0, (330, 10, 20), 81),
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
)
