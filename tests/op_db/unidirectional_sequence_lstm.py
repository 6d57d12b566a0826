"""UNIDIRECTIONAL_SEQUENCE_LSTM: reference and samples."""

from collections.abc import Mapping

from odt.kernels.rows.opdef import TensorSpec
from op_db import FLOAT64, OpInfo
from op_db.support.recurrent import (
    CLIPS,
    EVERYTHING,
    INSIDE,
    LSTM,
    NORMED,
    RELU,
    RELU6,
    X,
    lstm,
    lstm_inputs,
    lstm_refusal,
    lstm_sample,
)


def without(inputs: Mapping[str, tuple[int, ...]], *names: str) -> dict[str, tuple[int, ...]]:
    return {n: shape for n, shape in inputs.items() if n not in names}


COUPLED = lstm_inputs(X, 4, 2, "fgo", peepholes=True)
INFO = OpInfo(
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
    lstm,
    samples=(
        lstm_sample("plain", lstm_inputs(X, 2)),
        lstm_sample("peepholes", lstm_inputs(X, 2, peepholes=True)),
        lstm_sample("projection", lstm_inputs(X, 3, 2)),
        lstm_sample("projection of one width without bias", without(lstm_inputs(X, 2, 2), "bp")),
        lstm_sample("coupled", lstm_inputs(X, 2, gates="fgo")),
        lstm_sample("coupled, peepholes", lstm_inputs(X, 2, gates="fgo", peepholes=True)),
        lstm_sample("all", EVERYTHING, **CLIPS),
        lstm_sample("all, coupled", COUPLED, **CLIPS),
        lstm_sample("cell clip", lstm_inputs(X, 3), cell_clip=0.2),
        lstm_sample("relu", lstm_inputs(X, 2), fused_activation_function=RELU),
        lstm_sample("relu6", lstm_inputs(X, 2, gates="fgo"), fused_activation_function=RELU6),
        lstm_sample("one step", lstm_inputs((3, 1, 2), 2, peepholes=True)),
        lstm_sample("time first", lstm_inputs(X, 2), time_major=True),
        lstm_sample("layer normalization", lstm_inputs(X, 5, norm=True)),
        lstm_sample("all, layer normalization", NORMED, **CLIPS),
        lstm_sample("coupled, layer normalization", lstm_inputs(X, 3, gates="fgo", norm=True)),
        lstm_sample("all, time first", EVERYTHING, **CLIPS, time_major=True),
    ),
    large=lstm_sample("large", lstm_inputs((64, 16, 32), 64)),
    also_large=(
        lstm_sample("large, blocks of samples", lstm_inputs((70, 26, 9), 20)),
        lstm_sample("large, long sequences", lstm_inputs((16, 150, 24), 36)),
        lstm_sample("large, time first", lstm_inputs((16, 64, 32), 64), time_major=True),
        lstm_sample("large, few samples", lstm_inputs((3, 8, 64), 208)),
        lstm_sample("large, one sample", lstm_inputs((1, 9, 200), 272)),
        lstm_sample("large, one sample, units that fill no vector", lstm_inputs((1, 10, 150), 253)),
        lstm_sample("large, two samples", lstm_inputs((2, 9, 120), 224)),
        lstm_sample("large, weights beyond a cache", lstm_inputs((70, 3, 16), 272)),
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
        lstm_refusal("all or none of nf, ng, no, ni", {**LSTM, "nf": (5,)}),
        lstm_refusal("all or none of wi, ri, bi, ni", {**COUPLED, "ni": (4,)}),
        lstm_refusal("ni must be (4,)", {**NORMED, "ni": (5,)}),
        lstm_refusal("fused_activation_function", LSTM, fused_activation_function=6),
        lstm_refusal("got 0 (NONE)", LSTM, fused_activation_function=0),
        lstm_refusal("must be matrices", LSTM, diagonal_recurrent_tensors=1),
    ),
    draws=INSIDE,
    loose=16,
)
