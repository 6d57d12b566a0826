"""PAD: reference and samples."""

import numpy as np

from op_db import OpInfo, Refusal, Sample
from op_db.support.pad import PAD_REFUSALS, PAD_SAMPLES, pad, padded

INFO = OpInfo(
    "PAD",
    pad,
    samples=tuple(
        Sample(label, {"x": x}, {}, padded(*pads), mixes=mixes)
        for label, x, pads, mixes in PAD_SAMPLES
    ),
    large=Sample("large", {"x": (8, 64, 64, 16)}, {}, padded((0, 0), (1, 1), (1, 1), (0, 0))),
    refusals=(
        *(Refusal(words, {"x": x}, {}, padded(*pads)) for words, x, pads in PAD_REFUSALS),
        Refusal("(rank, 2)", {"x": (2,)}, {}, {"paddings": np.zeros(2, np.int32)}),
    ),
)
