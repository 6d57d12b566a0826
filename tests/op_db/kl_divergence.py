"""kl_divergence: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample, positive
from op_db.support.losses import (
    LOGITS,
    PROBABILITIES,
    SCALE,
    dense,
    over_positions,
    probabilities,
    weighted,
)


def kl_divergence(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    p, t = probabilities(o, i["x"]), i["t"]
    terms = np.where(t > 0, t * np.log(np.where(t > 0, t, 1) / p), 0)
    return over_positions(o, terms.sum(-1), i["scale"])


def one_hot(label: str, **options: object) -> Sample:
    t = np.eye(4)[[2, 0, 2]]
    inputs: dict[str, tuple[int, ...] | Array] = {"x": (3, 4), "t": t, "scale": SCALE}
    return Sample(label, inputs, options, {}, ("scale",))


INFO = OpInfo(
    "kl_divergence",
    kl_divergence,
    samples=(
        dense("logits", (3, 4), **LOGITS),
        dense("logits, beta", (3, 4), **LOGITS, beta=0.6),
        dense("logits, positions", (2, 3, 4), **LOGITS),
        dense("logits, positions summed", (2, 3, 4), **LOGITS, mean_over_positions=False),
        dense("probabilities", (3, 4), **PROBABILITIES),
        one_hot("logits, one-hot", **LOGITS),
        weighted("logits, weighted", (3, 4), **LOGITS),
        weighted("logits, weighted positions", (2, 3, 4), 6, **LOGITS),
        weighted("probabilities, weighted", (3, 4), **PROBABILITIES),
    ),
    large=dense("large", (512, 512), **LOGITS),
    also_large=(weighted("large, weighted", (512, 512), **LOGITS),),
    refusals=(
        Refusal("t must be like x", {"x": (3, 4), "t": (3,), "scale": (1,)}, LOGITS),
        Refusal("(N, …, K)", {"x": (4,), "t": (4,), "scale": (1,)}, LOGITS),
    ),
    draw=positive,
    loose=10,
)
