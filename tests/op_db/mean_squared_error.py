"""mean_squared_error: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.opdef import Array
from op_db import OpInfo, Options, Refusal
from op_db.support.losses import dense


def mean_squared_error(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    squares = (i["x"] - i["t"]) ** 2
    samples = [np.mean(squares[n]) for n in range(len(squares))]
    return {"loss": np.sum(samples) * i["scale"]}


INFO = OpInfo(
    "mean_squared_error",
    mean_squared_error,
    samples=(dense("rank 2", (3, 4)), dense("rank 4", (2, 2, 3, 1)), dense("rank 1", (4,))),
    large=dense("large", (512, 512)),
    refusals=(
        Refusal("t must be like x", {"x": (3, 4), "t": (3, 5), "scale": (1,)}),
        Refusal("t must be like x", {"x": (), "t": (), "scale": (1,)}),
    ),
    loose=10,
)
