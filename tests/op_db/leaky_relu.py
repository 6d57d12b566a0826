"""LEAKY_RELU: reference and samples."""

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Refusal, Sample
from op_db.support.unary import FLOAT, LARGE, formula


def leaky_relu(x: Array, alpha: float) -> Array:
    return np.where(x > 0, x, alpha * x)


INFO = OpInfo(
    "LEAKY_RELU",
    formula(leaky_relu, "alpha"),
    samples=(
        Sample("small", {"x": (3, 4)}, {"alpha": 0.1}),
        Sample("nothing", {"x": (3, 4)}, {"alpha": 0.0}),
        Sample("above 1", {"x": (3, 4)}, {"alpha": 1.5}),
    ),
    large=Sample("large", LARGE, {"alpha": 0.2}),
    refusals=(
        *(Refusal(r.words, r.inputs, {"alpha": 0.1}) for r in FLOAT),
        Refusal("0 or more", {"x": (2, 3)}, {"alpha": -0.1}),
        Refusal("0 or more", {"x": (2, 3)}, {"alpha": float("nan")}),
    ),
)
