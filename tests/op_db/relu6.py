"""RELU6: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Sample


def relu6(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.where(i["x"] < 0, 0, np.where(i["x"] > 6, 6, i["x"]))}


INFO = OpInfo(
    "RELU6",
    relu6,
    samples=(
        Sample("rank 2", {"x": (3, 4)}),
        Sample("both sides", {"x": np.array([[-9.0, -0.1, 0.1, 5.9, 6.1, 9.0]])}),
    ),
    large=Sample("large", {"x": (512, 1024)}),
)
