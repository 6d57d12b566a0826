"""RELU: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import OpInfo, Options, Refusal, Sample


def relu(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.where(i["x"] > 0, i["x"], 0)}


INFO = OpInfo(
    "RELU",
    relu,
    samples=(
        Sample("rank 2", {"x": (3, 4)}),
        Sample("rank 4", {"x": (1, 2, 3, 2)}),
        Sample("integers", {"x": np.array([[-3, 0, 9]], np.int32)}),
    ),
    large=Sample("large", {"x": (512, 1024)}),
    refusals=(Refusal("must be a number", {"x": TensorSpec((2, 3), np.dtype(bool))}),),
)
