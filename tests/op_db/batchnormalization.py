"""CUSTOM:BatchNormalization: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample, positive


def batch_normalization(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x = i["x"]
    y = np.empty_like(x)
    for c in range(x.shape[-1]):
        one, mean, variance = x[..., c], i["mean"][c], i["variance"][c]
        if o.get("batch"):
            mean, variance = one.mean(), ((one - one.mean()) ** 2).mean()
        spread = np.sqrt(variance + o.get("epsilon", 1e-5))
        y[..., c] = (one - mean) / spread * i["gamma"][c] + i["beta"][c]
    return {"y": y}


VECTORS = ("gamma", "beta", "mean", "variance")


def inputs(*shape: int) -> dict[str, tuple[int, ...]]:
    return {"x": shape, **dict.fromkeys(VECTORS, shape[-1:])}


def batch(label: str, *shape: int) -> Sample:
    options = {"batch": True, "epsilon": 0.01}
    return Sample(label, inputs(*shape), options, constants=VECTORS, mixes=True)


INFO = OpInfo(
    "CUSTOM:BatchNormalization",
    batch_normalization,
    samples=(
        Sample("running statistics", inputs(2, 3, 4, 3), constants=VECTORS),
        Sample("wide epsilon", inputs(4, 2), {"epsilon": 0.1}, constants=VECTORS),
        batch("images of a batch", 2, 3, 4, 3),
        batch("vectors of a batch", 5, 2),
        batch("sequences of a batch", 3, 4, 2),
    ),
    large=batch("large", 4, 64, 64, 16),
    also_large=(Sample("large, running", inputs(4, 64, 64, 16), constants=VECTORS),),
    refusals=(
        Refusal("(S…, C)", inputs(3)),
        Refusal("(S…, C)", {**inputs(2, 3), "variance": (2,)}),
    ),
    draws={"variance": positive},
    loose=4,
)
