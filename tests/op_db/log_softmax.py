"""LOG_SOFTMAX: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Sample
from op_db.support.last_axis import LAST_AXIS, softmax


def log_softmax(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.log(softmax({}, i)["y"])}


INFO = OpInfo(
    "LOG_SOFTMAX",
    log_softmax,
    samples=(
        Sample("rank 2", {"x": (3, 4)}),
        Sample("rank 4", {"x": (2, 2, 2, 3)}),
        Sample("rank 1", {"x": (4,)}, mixes=True),
    ),
    large=Sample("large", {"x": (512, 1024)}),
    refusals=LAST_AXIS,
    loose=4,
)
