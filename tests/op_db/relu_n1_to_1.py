"""RELU_N1_TO_1: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Sample


def relu_n1_to_1(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.where(i["x"] < -1, -1, np.where(i["x"] > 1, 1, i["x"]))}


INFO = OpInfo(
    "RELU_N1_TO_1",
    relu_n1_to_1,
    samples=(
        Sample("rank 2", {"x": (3, 4)}),
        Sample("both sides", {"x": np.array([[-9.0, -1.1, -0.9, 0.9, 1.1, 9.0]])}),
    ),
    large=Sample("large", {"x": (512, 1024)}),
)
