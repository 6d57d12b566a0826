"""CUSTOM:StatefulLstm: reference and samples."""

from dataclasses import replace

from op_db import OpInfo, Sample
from op_db.support.recurrent import (
    CLIPS,
    EVERYTHING,
    INSIDE,
    LSTM,
    NORMED,
    RELU,
    X,
    lstm_inputs,
    lstm_refusal,
    lstm_sample,
    stateful_lstm,
)

Shapes = dict[str, tuple[int, ...]]


def with_states(inputs: Shapes, states: str = "hc", rows: int = 0) -> Shapes:
    """Adds first states, one row for each sample or as many as `rows`."""
    samples, widths = rows or inputs["x"][0], {"h": inputs["rf"][1], "c": inputs["rf"][0]}
    return inputs | {name: (samples, widths[name]) for name in states}


def sample(label: str, inputs: Shapes, **o: float) -> Sample:
    """A sample whose states are those of samples, unless they have one row."""
    plain = lstm_sample(label, inputs, **o)
    shared = any(inputs.get(n, (0,))[0] == 1 < inputs["x"][0] for n in "hc")
    return replace(plain, constants=tuple(n for n in plain.constants if n not in "hc" or shared))


PLAIN = lstm_inputs(X, 2)
INFO = OpInfo(
    "CUSTOM:StatefulLstm",
    stateful_lstm,
    samples=(
        sample("no states", PLAIN),
        sample("both states", with_states(PLAIN)),
        sample("h alone", with_states(PLAIN, "h")),
        sample("c alone", with_states(PLAIN, "c")),
        sample("states that samples share", with_states(PLAIN, rows=1)),
        sample("peepholes", with_states(lstm_inputs(X, 2, peepholes=True))),
        sample("peepholes, a shared cell", with_states(lstm_inputs(X, 2, peepholes=True), "c", 1)),
        sample("projection", with_states(lstm_inputs(X, 3, 2))),
        sample("coupled", with_states(lstm_inputs(X, 2, gates="fgo"))),
        sample("all", with_states(EVERYTHING), **CLIPS),
        sample("all, layer normalization", with_states(NORMED), **CLIPS),
        sample("relu", with_states(PLAIN), fused_activation_function=RELU),
        sample("one step", with_states(lstm_inputs((3, 1, 2), 2, peepholes=True))),
        replace(
            lstm_sample(
                "time first",
                with_states(lstm_inputs((4, 2, 3), 2), rows=2),
                time_major=True,
            ),
            rebatches=False,
        ),
    ),
    large=sample("large", with_states(lstm_inputs((64, 16, 32), 64))),
    refusals=(
        lstm_refusal("h must be (2, 5)", {**LSTM, "h": (3, 5)}),
        lstm_refusal("c must be (2, 5)", {**LSTM, "c": (2, 4)}),
        lstm_refusal("x must be (N, T, I)", {**LSTM, "x": (2, 3)}),
        lstm_refusal("x must have steps", {**LSTM, "x": (2, 0, 3)}),
    ),
    draws={**INSIDE, "h": INSIDE["wf"], "c": INSIDE["wf"]},
    loose=16,
)
