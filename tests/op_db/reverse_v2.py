"""REVERSE_V2: reference and samples."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample


def reverse(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.flip(i["x"], tuple(o["axes"]))}


def axes(*which: int) -> dict[str, Any]:
    return {"axes": np.array(which, np.int32)}


INFO = OpInfo(
    "REVERSE_V2",
    reverse,
    samples=(
        Sample("one axis", {"x": (2, 3)}, {}, axes(1)),
        Sample("two", {"x": (2, 3, 4)}, {}, axes(-1, 1)),
        Sample("none", {"x": (2, 3)}, {}, axes()),
        Sample("of a number", {"x": ()}, {}, axes(), rebatches=False),
        Sample("the batch", {"x": (3, 2)}, {}, axes(0), mixes=True),
    ),
    large=Sample("large", {"x": (8, 256, 256)}, {}, axes(1, 2)),
    refusals=(Refusal("different ones of x", {"x": (2, 3)}, {}, axes(1, -1)),),
)
