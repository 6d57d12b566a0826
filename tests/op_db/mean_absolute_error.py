"""mean_absolute_error: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal
from op_db.support.losses import apart, dense, sample_means, weighted


def mean_absolute_error(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return sample_means(np.abs(i["x"] - i["t"]), i["scale"])


INFO = OpInfo(
    "mean_absolute_error",
    mean_absolute_error,
    samples=(
        dense("rank 2", (3, 4)),
        dense("rank 4", (2, 2, 3, 1)),
        dense("rank 1", (4,)),
        weighted("weighted", (3, 4)),
        weighted("weighted positions", (2, 3, 4), 6),
    ),
    large=dense("large", (512, 512)),
    also_large=(weighted("large, weighted", (512, 512)),),
    refusals=(
        Refusal("t must be like x", {"x": (3, 4), "t": (3, 5), "scale": (1,)}),
        Refusal("t must be like x", {"x": (), "t": (), "scale": (1,)}),
    ),
    draws={"t": apart},
    loose=10,
)
