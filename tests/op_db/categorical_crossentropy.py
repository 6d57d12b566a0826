"""categorical_crossentropy: reference and samples."""

from collections.abc import Mapping

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, positive
from op_db.support.losses import LOGITS, PROBABILITIES, cross_entropy, dense, weighted


def categorical(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return cross_entropy(o, i["x"], i["t"], i["scale"])


INFO = OpInfo(
    "categorical_crossentropy",
    categorical,
    samples=(
        dense("logits", (3, 4), **LOGITS),
        dense("logits, many classes", (19, 37), **LOGITS),
        dense("logits, beta", (3, 4), **LOGITS, beta=0.6),
        dense("logits, positions", (2, 3, 4), **LOGITS),
        dense("logits, positions summed", (2, 3, 4), **LOGITS, mean_over_positions=False),
        dense("probabilities", (3, 4), **PROBABILITIES),
        dense("probabilities, positions", (2, 3, 4), **PROBABILITIES),
        dense("logits, smoothed", (3, 4), **LOGITS, beta=0.6, label_smoothing=0.2),
        dense("probabilities, smoothed", (3, 4), **PROBABILITIES, label_smoothing=0.2),
        weighted("logits, weighted", (3, 4), **LOGITS),
        weighted("logits, weighted positions", (2, 3, 4), 6, **LOGITS, beta=0.6),
        weighted("weighted positions, summed", (2, 3, 4), 6, **LOGITS, mean_over_positions=False),
        weighted("probabilities, weighted", (3, 4), **PROBABILITIES, label_smoothing=0.2),
    ),
    large=dense("large", (512, 512), **LOGITS),
    also_large=(
        weighted("large, weighted", (512, 512), **LOGITS, label_smoothing=0.1),
        weighted("large, weighted positions", (2, 256, 512), 512, **LOGITS),
    ),
    refusals=(
        Refusal("t must be like x", {"x": (3, 4), "t": (3,), "scale": (1,)}, LOGITS),
        Refusal("(N, …, K)", {"x": (4,), "t": (4,), "scale": (1,)}, LOGITS),
    ),
    draw=positive,
    loose=10,
)
