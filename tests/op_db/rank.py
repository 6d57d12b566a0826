"""RANK: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Sample


def rank(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.array(i["x"].ndim)}


INFO = OpInfo(
    "RANK",
    rank,
    samples=(
        Sample("rank 1", {"x": (3,)}, rebatches=False),
        Sample("rank 3", {"x": (2, 3, 4)}, rebatches=False),
    ),
    large=Sample("large", {"x": (512, 1024)}),
)
