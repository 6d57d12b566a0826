"""LOCAL_RESPONSE_NORMALIZATION: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import INT32, OpInfo, Options, Refusal, Sample


def local_response(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x = i["x"]
    y = np.empty_like(x)
    for c in range(x.shape[-1]):
        window = x[..., max(c - o["radius"], 0) : c + o["radius"] + 1]
        s = o["bias"] + o["alpha"] * (window**2).sum(-1)
        y[..., c] = x[..., c] / s ** o["beta"]
    return {"y": y}


def options(radius: int, bias: float = 1.5, alpha: float = 0.7, beta: float = 0.6) -> Options:
    return {"radius": radius, "bias": bias, "alpha": alpha, "beta": beta}


INFO = OpInfo(
    "LOCAL_RESPONSE_NORMALIZATION",
    local_response,
    samples=(
        Sample("AlexNet", {"x": (2, 2, 3, 7)}, options(2, 2.0, 1e-4, 0.75)),
        Sample("strong", {"x": (2, 3, 6)}, options(1)),
        Sample("wider than the channels", {"x": (3, 4)}, options(9)),
        Sample("each channel alone", {"x": (3, 4)}, options(0)),
        Sample("one channel", {"x": (3, 1)}, options(2)),
        Sample("rank 1", {"x": (5,)}, options(1), mixes=True),
    ),
    large=Sample("large", {"x": (64, 64, 96)}, options(2)),
    refusals=(
        Refusal("radius must be 0 or more", {"x": (2, 3)}, options(-1)),
        Refusal("float", {"x": TensorSpec((2, 3), INT32)}, options(1)),
    ),
    loose=4,
)
