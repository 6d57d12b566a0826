"""RMS_NORM: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import FLOAT64, OpInfo, Options, Refusal, Sample


def rms_norm(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x = i["x"]
    square = (x**2).mean(axis=-1, keepdims=True)
    return {"y": x / np.sqrt(square + o.get("epsilon", 1e-6)) * i["gamma"]}


INFO = OpInfo(
    "RMS_NORM",
    rms_norm,
    samples=(
        Sample("tokens", {"x": (2, 3, 5), "gamma": (5,)}, constants=("gamma",)),
        Sample("a row as weight", {"x": (2, 3, 5), "gamma": (1, 5)}, constants=("gamma",)),
        Sample("epsilon", {"x": (2, 4), "gamma": (4,)}, {"epsilon": 0.5}, {}, ("gamma",)),
        Sample("a list", {"x": (6,), "gamma": (6,)}, {}, {}, ("gamma",), rebatches=False),
    ),
    large=Sample("large", {"x": (8, 128, 256), "gamma": (256,)}, constants=("gamma",)),
    refusals=(
        Refusal("gamma (K)", {"x": (2, 3), "gamma": (2,)}),
        Refusal("of x's type", {"x": (2, 3), "gamma": TensorSpec((3,), FLOAT64)}),
    ),
    loose=4,
)
