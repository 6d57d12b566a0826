"""LSTM: reference and samples."""

from op_db import OpInfo
from op_db.support.recurrent import (
    CLIPS,
    INSIDE,
    LSTM,
    lstm,
    lstm_inputs,
    lstm_refusal,
    lstm_sample,
)

INFO = OpInfo(
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
)
