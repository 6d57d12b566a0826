"""Operators that only Circle has: normalizations and rotary embeddings."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample


def instance_norm(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x = i["x"]
    y = np.empty_like(x)
    for n, c in np.ndindex(x.shape[0], x.shape[-1]):
        one = x[n, ..., c]
        spread = np.sqrt(((one - one.mean()) ** 2).mean() + o.get("epsilon", 1e-5))
        y[n, ..., c] = (one - one.mean()) / spread * i["gamma"].flat[c] + i["beta"].flat[c]
    return {"y": y}


def rms_norm(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x = i["x"]
    square = (x**2).mean(axis=-1, keepdims=True)
    return {"y": x / np.sqrt(square + o.get("epsilon", 1e-6)) * i["gamma"]}


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


WEIGHTS, TABLES = ("gamma", "beta"), ("sin", "cos")
ROWS: tuple[OpInfo, ...] = (
    OpInfo(
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
        large=Sample(
            "large", {"x": (4, 64, 64, 16), "gamma": (16,), "beta": (16,)}, constants=WEIGHTS
        ),
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
    ),
    OpInfo(
        "RMS_NORM",
        rms_norm,
        samples=(
            Sample("tokens", {"x": (2, 3, 5), "gamma": (5,)}, constants=("gamma",)),
            Sample("epsilon", {"x": (2, 4), "gamma": (4,)}, {"epsilon": 0.5}, {}, ("gamma",)),
            Sample("a list", {"x": (6,), "gamma": (6,)}, {}, {}, ("gamma",), rebatches=False),
        ),
        large=Sample("large", {"x": (8, 128, 256), "gamma": (256,)}, constants=("gamma",)),
        refusals=(Refusal("gamma (K)", {"x": (2, 3), "gamma": (2,)}),),
        loose=4,
    ),
    OpInfo(
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
            Refusal("GPT_NEOX", turning(4), {"mode": 1}),
        ),
    ),
)
