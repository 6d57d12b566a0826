"""SOFTMAX: reference and samples."""

from op_db import OpInfo, Sample
from op_db.support.last_axis import LAST_AXIS, softmax

INFO = OpInfo(
    "SOFTMAX",
    softmax,
    samples=(
        Sample("rank 2", {"x": (3, 4)}),
        Sample("rank 4, beta", {"x": (2, 2, 2, 3)}, {"beta": 0.7}),
        Sample("rank 1", {"x": (4,)}, mixes=True),
        Sample("one class", {"x": (2, 1)}),
    ),
    large=Sample("large", {"x": (512, 1024)}),
    refusals=LAST_AXIS,
)
