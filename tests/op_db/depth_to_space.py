"""DEPTH_TO_SPACE: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample


def depth_to_space(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, b = i["x"], o["block_size"]
    n, h, w, c = x.shape
    c //= b * b
    y = np.zeros((n, h * b, w * b, c), x.dtype)
    for r, k, ch in np.ndindex(h * b, w * b, c):
        y[:, r, k, ch] = x[:, r // b, k // b, ((r % b) * b + k % b) * c + ch]
    return {"y": y}


INFO = OpInfo(
    "DEPTH_TO_SPACE",
    depth_to_space,
    samples=(
        Sample("two", {"x": (2, 2, 3, 12)}, {"block_size": 2}),
        Sample("three", {"x": (1, 1, 2, 9)}, {"block_size": 3}),
    ),
    large=Sample("large", {"x": (4, 32, 32, 128)}, {"block_size": 2}),
    refusals=(Refusal("must divide C", {"x": (1, 2, 2, 6)}, {"block_size": 2}),),
)
