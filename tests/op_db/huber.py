"""huber: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal
from op_db.support.losses import dense, sample_means, weighted


def huber(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    e, delta = np.abs(i["x"] - i["t"]), o.get("delta", 1.0)
    return sample_means(np.where(e <= delta, e * e / 2, delta * (e - delta / 2)), i["scale"])


INFO = OpInfo(
    "huber",
    huber,
    samples=(
        dense("rank 2", (3, 4)),
        dense("rank 4", (2, 2, 3, 1), delta=0.4),
        dense("rank 1", (4,), delta=2.0),
        weighted("weighted", (3, 4), delta=0.7),
        weighted("weighted positions", (2, 3, 4), 6, delta=0.7),
    ),
    large=dense("large", (512, 512)),
    also_large=(weighted("large, weighted", (512, 512)),),
    refusals=(
        Refusal("t must be like x", {"x": (3, 4), "t": (3, 5), "scale": (1,)}),
        Refusal("t must be like x", {"x": (), "t": (), "scale": (1,)}),
    ),
    loose=10,
)
