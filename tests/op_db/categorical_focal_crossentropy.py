"""categorical_focal_crossentropy: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, between
from op_db.support.losses import (
    LOGITS,
    PROBABILITIES,
    dense,
    over_positions,
    probabilities,
    smoothed,
    weighted,
)


def categorical_focal(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    p, t = probabilities(o, i["x"]), smoothed(o, i["t"], i["x"].shape[-1])
    terms = -o.get("alpha", 0.25) * t * (1 - p) ** o.get("gamma", 2.0) * np.log(p)
    return over_positions(o, terms.sum(-1), i["scale"])


INFO = OpInfo(
    "categorical_focal_crossentropy",
    categorical_focal,
    samples=(
        dense("logits", (3, 4), **LOGITS),
        dense("logits, beta", (3, 4), **LOGITS, beta=0.6, alpha=1.0, gamma=0.5),
        dense("logits, gamma 0", (3, 4), **LOGITS, gamma=0.0),
        dense("logits, positions", (2, 3, 4), **LOGITS, label_smoothing=0.2),
        dense("logits, positions summed", (2, 3, 4), **LOGITS, mean_over_positions=False),
        dense("probabilities", (3, 4), **PROBABILITIES, gamma=1.5),
        dense("probabilities, smoothed", (3, 4), **PROBABILITIES, label_smoothing=0.2),
        weighted("logits, weighted", (3, 4), **LOGITS),
        weighted("logits, weighted positions", (2, 3, 4), 6, **LOGITS),
        weighted("probabilities, weighted", (3, 4), **PROBABILITIES),
    ),
    large=dense("large", (512, 512), **LOGITS),
    also_large=(weighted("large, weighted", (512, 512), **PROBABILITIES),),
    refusals=(
        Refusal("t must be like x", {"x": (3, 4), "t": (3,), "scale": (1,)}, LOGITS),
        Refusal("(N, …, K)", {"x": (4,), "t": (4,), "scale": (1,)}, LOGITS),
    ),
    draw=between(0.1, 0.9),
    loose=10,
)
