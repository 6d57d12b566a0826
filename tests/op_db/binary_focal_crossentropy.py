"""binary_focal_crossentropy: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, between
from op_db.support.losses import (
    LOGITS,
    PROBABILITIES,
    dense,
    over_positions,
    smoothed,
    unit_probabilities,
    weighted,
)

BALANCED = {"apply_class_balancing": True}


def binary_focal(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    p, t = unit_probabilities(o, i["x"]), smoothed(o, i["t"], 2)
    units = -(t * np.log(p) + (1 - t) * np.log(1 - p))
    units = units * (1 - (t * p + (1 - t) * (1 - p))) ** o.get("gamma", 2.0)
    if o.get("apply_class_balancing"):
        alpha = o.get("alpha", 0.25)
        units = units * (t * alpha + (1 - t) * (1 - alpha))
    return over_positions(o, units.mean(-1) if p.ndim > 1 else units, i["scale"])


INFO = OpInfo(
    "binary_focal_crossentropy",
    binary_focal,
    samples=(
        dense("logits", (3, 4), **LOGITS),
        dense("logits, one value a sample", (4,), **LOGITS, gamma=0.0),
        dense("logits, balanced", (2, 3, 4), **LOGITS, **BALANCED, alpha=0.8, gamma=0.5),
        dense("logits, positions summed", (2, 3, 4), **LOGITS, mean_over_positions=False),
        dense("probabilities", (3, 4), **PROBABILITIES, gamma=1.5),
        dense("probabilities, balanced", (3, 4), **PROBABILITIES, **BALANCED),
        dense("logits, smoothed", (3, 4), **LOGITS, label_smoothing=0.2),
        weighted("logits, weighted", (3, 4), **LOGITS),
        weighted("logits, weighted positions", (2, 3, 4), 6, **LOGITS, **BALANCED),
        weighted("probabilities, weighted", (3, 4), **PROBABILITIES, label_smoothing=0.2),
    ),
    large=dense("large", (512, 512), **LOGITS),
    also_large=(weighted("large, weighted", (512, 512), **PROBABILITIES, **BALANCED),),
    refusals=(
        Refusal("t must be like x", {"x": (3, 4), "t": (3,), "scale": (1,)}, LOGITS),
        Refusal("(N, …, K)", {"x": (), "t": (), "scale": (1,)}, LOGITS),
    ),
    draw=between(0.1, 0.9),
    loose=10,
)
