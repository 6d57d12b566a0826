"""INSTANCE_NORM: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample


def instance_norm(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x = i["x"]
    y = np.empty_like(x)
    for n, c in np.ndindex(x.shape[0], x.shape[-1]):
        one = x[n, ..., c]
        spread = np.sqrt(((one - one.mean()) ** 2).mean() + o.get("epsilon", 1e-5))
        y[n, ..., c] = (one - one.mean()) / spread * i["gamma"].flat[c] + i["beta"].flat[c]
    return {"y": y}


WEIGHTS = ("gamma", "beta")
INFO = OpInfo(
    "INSTANCE_NORM",
    instance_norm,
    samples=(
        Sample("images", {"x": (2, 3, 4, 3), "gamma": (3,), "beta": (3,)}, constants=WEIGHTS),
        Sample(
            "signals, wide epsilon",
            {"x": (2, 5, 2), "gamma": (1, 1, 2), "beta": (1, 1, 2)},
            {"epsilon": 0.1},
            constants=WEIGHTS,
        ),
    ),
    large=Sample("large", {"x": (4, 64, 64, 16), "gamma": (16,), "beta": (16,)}, constants=WEIGHTS),
    also_large=(
        Sample(
            "many channels",
            {"x": (2, 18, 25, 150), "gamma": (150,), "beta": (150,)},
            constants=WEIGHTS,
        ),
    ),
    refusals=(
        Refusal("(N, S…, C)", {"x": (2, 3), "gamma": (3,), "beta": (3,)}),
        Refusal("(N, S…, C)", {"x": (2, 3, 4), "gamma": (3,), "beta": (4,)}),
    ),
    loose=4,
)
