"""TANH: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import INT32, OpInfo, Options, Refusal, Sample


def tanh(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": (np.exp(i["x"]) - np.exp(-i["x"])) / (np.exp(i["x"]) + np.exp(-i["x"]))}


INFO = OpInfo(
    "TANH",
    tanh,
    (Sample("rank 2", {"x": (3, 4)}),),
    Sample("large", {"x": (512, 1024)}),
    refusals=(Refusal("float", {"x": TensorSpec((2, 3), INT32)}),),
)
