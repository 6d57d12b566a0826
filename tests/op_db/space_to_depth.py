"""SPACE_TO_DEPTH: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample


def space_to_depth(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    """Pixel by pixel, from tf.nn.space_to_depth's definition."""
    x, b = i["x"], o["block_size"]
    n, h, w, c = x.shape
    y = np.zeros((n, h // b, w // b, b * b * c), x.dtype)
    for r, k, ch in np.ndindex(h, w, c):
        y[:, r // b, k // b, ((r % b) * b + k % b) * c + ch] = x[:, r, k, ch]
    return {"y": y}


IMAGE = {"x": (2, 4, 6, 3)}
INFO = OpInfo(
    "SPACE_TO_DEPTH",
    space_to_depth,
    samples=(
        Sample("two", IMAGE, {"block_size": 2}),
        Sample("three", {"x": (1, 3, 6, 2)}, {"block_size": 3}),
        Sample("one", IMAGE, {"block_size": 1}),
    ),
    large=Sample("large", {"x": (4, 64, 64, 32)}, {"block_size": 2}),
    refusals=(
        Refusal("must divide H and W", {"x": (1, 3, 4, 1)}, {"block_size": 2}),
        Refusal("(N, H, W, C)", {"x": (4, 4)}, {"block_size": 2}),
    ),
)
