"""DYNAMIC_UPDATE_SLICE: reference and samples."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import INT32, OpInfo, Options, Refusal, Sample
from op_db.support.indices import list_of


def updated(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, update, y = i["x"], i["update"], i["x"].copy()
    for at in np.ndindex(update.shape):
        begin = (
            min(max(int(b), 0), d - u)
            for b, d, u in zip(i["start"], x.shape, update.shape, strict=True)
        )
        y[tuple(b + k for b, k in zip(begin, at, strict=True))] = update[at]
    return {"y": y}


def sample(
    label: str, x: tuple[int, ...], update: tuple[int, ...], start: list[int], mixes: bool = False
) -> Sample:
    inputs: dict[str, Any] = {"x": x, "update": update, "start": np.array(start, np.int32)}
    return Sample(label, inputs, constants=("start",), mixes=mixes)


INFO = OpInfo(
    "DYNAMIC_UPDATE_SLICE",
    updated,
    samples=(
        sample("a block", (2, 4, 3), (2, 2, 1), [0, 1, 2]),
        sample("starts outside", (2, 4, 3), (2, 2, 2), [7, -5, 2]),
        sample("all of it", (2, 3), (2, 3), [0, 0]),
        sample("a sample", (3, 2), (1, 2), [1, 0], mixes=True),
        Sample(
            "integers",
            {
                "x": np.arange(6, dtype=np.int32).reshape(2, 3),
                "update": np.array([[8], [9]], np.int32),
                "start": np.array([0, 1]),
            },
            constants=("start",),
        ),
    ),
    large=sample("large", (8, 256, 256), (8, 200, 100), [0, 3, 5]),
    refusals=(
        Refusal("a block of x", {"x": (2, 3), "update": (2, 4), "start": list_of(2)}),
        Refusal("a block of x", {"x": (2, 3), "update": (3,), "start": list_of(2)}),
        Refusal("for each axis", {"x": (2, 3), "update": (2, 1), "start": list_of(3)}),
        Refusal("for each axis", {"x": (2, 3), "update": (2, 1), "start": (2,)}),
        Refusal(
            "a block of x", {"x": TensorSpec((2,), INT32), "update": (1,), "start": list_of(1)}
        ),
    ),
)
