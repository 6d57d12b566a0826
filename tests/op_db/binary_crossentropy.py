"""binary_crossentropy: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.opdef import Array
from op_db import OpInfo, Options, Refusal, between
from op_db.support.losses import LOGITS, PROBABILITIES, dense


def binary_cross_entropy(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    p = 1 / (1 + np.exp(-i["x"])) if o["from_logits"] else np.clip(i["x"], 1e-7, 1 - 1e-7)
    units = -(i["t"] * np.log(p) + (1 - i["t"]) * np.log(1 - p))
    rows = units.mean(-1).reshape(len(p), -1) if p.ndim > 1 else units.reshape(-1, 1)
    samples = rows.mean(1) if o.get("mean_over_positions", True) else rows.sum(1)
    return {"loss": np.sum(samples) * i["scale"]}


INFO = OpInfo(
    "binary_crossentropy",
    binary_cross_entropy,
    samples=(
        dense("logits", (3, 4), **LOGITS),
        dense("logits, one value a sample", (4,), **LOGITS),
        dense("logits, positions", (2, 3, 4), **LOGITS),
        dense("logits, positions summed", (2, 3, 4), **LOGITS, mean_over_positions=False),
        dense("probabilities", (3, 4), **PROBABILITIES),
        dense("probabilities, positions", (2, 3, 1, 4), **PROBABILITIES),
    ),
    large=dense("large", (512, 512), **LOGITS),
    also_large=(dense("large, probabilities", (512, 512), **PROBABILITIES),),
    refusals=(
        Refusal("t must be like x", {"x": (3, 4), "t": (3,), "scale": (1,)}, LOGITS),
        Refusal("(N, …, K)", {"x": (), "t": (), "scale": (1,)}, LOGITS),
    ),
    draw=between(0.1, 0.9),
    loose=10,
)
