"""PADV2: reference and samples."""

import numpy as np

from op_db import OpInfo, Refusal, Sample
from op_db.support.pad import PAD_REFUSALS, PAD_SAMPLES, pad, padded

INFO = OpInfo(
    "PADV2",
    pad,
    samples=tuple(
        Sample(
            label,
            {"x": x, "value": np.array(shape * [0.7]).reshape(shape * (1,))},
            {},
            padded(*pads),
            ("value",),
            mixes,
        )
        for label, x, pads, mixes in PAD_SAMPLES
        for shape in (1,)
    ),
    large=Sample(
        "large",
        {"x": (8, 64, 64, 16), "value": ()},
        {},
        padded((0, 0), (1, 1), (1, 1), (0, 0)),
    ),
    refusals=(
        *(
            Refusal(words, {"x": x, "value": (1,)}, {}, padded(*pads))
            for words, x, pads in PAD_REFUSALS
        ),
        Refusal("value must be one", {"x": (2,), "value": (2,)}, {}, padded((0, 0))),
    ),
)
