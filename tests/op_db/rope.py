"""ROPE: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import FLOAT64, OpInfo, Options, Refusal, Sample


def rope(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    """Value by value, as onert's documentation of the mode GPT_NEOX has it."""
    x = i["x"]
    y, d = np.empty_like(x), x.shape[3] // 2
    sin, cos = (np.broadcast_to(i[n], x.shape) for n in ("sin", "cos"))
    for *at, k in np.ndindex(*x.shape[:3], d):
        low, high = (*at, k), (*at, k + d)
        y[low] = x[low] * cos[low] - x[high] * sin[low]
        y[high] = x[low] * sin[high] + x[high] * cos[high]
    return {"y": y}


def turning(*table: int, x: tuple[int, ...] = (2, 3, 2, 4)) -> dict[str, tuple[int, ...]]:
    return {"x": x, "sin": table, "cos": table}


TABLES = ("sin", "cos")
INFO = OpInfo(
    "ROPE",
    rope,
    samples=(
        Sample("one angle", turning(1, 1, 1, 4), constants=TABLES),
        Sample("an angle a place", turning(1, 1, 2, 4), constants=TABLES),
        Sample("a list", turning(4), constants=TABLES),
    ),
    large=Sample("large", turning(1, 1, 64, 64, x=(8, 16, 64, 64)), constants=TABLES),
    refusals=(
        Refusal("D even", turning(1, 1, 1, 3, x=(1, 1, 1, 3))),
        Refusal("(…, D) alike", turning(1, 1, 1, 2)),
        Refusal("of x's type", {**turning(4), **dict.fromkeys(TABLES, TensorSpec((4,), FLOAT64))}),
        Refusal("GPT_NEOX", turning(4), {"mode": 1}),
    ),
)
