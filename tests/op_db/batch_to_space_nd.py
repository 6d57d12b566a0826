"""BATCH_TO_SPACE_ND: reference and samples."""

from collections.abc import Mapping
from itertools import product

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.blocks import NONE, blocks


def batch_to_space(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, block, edges = i["x"], o["block"], o["edges"]
    n = x.shape[0] // int(np.prod(block))
    space = [s * b for s, b in zip(x.shape[1:], block, strict=False)]
    y = np.zeros((n, *space, *x.shape[1 + len(block) :]), x.dtype)
    for number, offset in enumerate(product(*map(range, block))):
        where = (slice(k, None, b) for k, b in zip(offset, block, strict=True))
        y[(slice(None), *where)] = x[number * n : (number + 1) * n]
    kept = (slice(lo, s - hi) for s, (lo, hi) in zip(space, edges, strict=True))
    return {"y": y[(slice(None), *kept)]}


INFO = OpInfo(
    "BATCH_TO_SPACE_ND",
    batch_to_space,
    samples=(
        Sample("cropped", {"x": (12, 2, 2, 2)}, {}, blocks((2, 3), (0, 1), (2, 1)), mixes=True),
        Sample("even", {"x": (4, 2, 2, 1)}, {}, blocks((2, 2), NONE, NONE), mixes=True),
        Sample("one axis", {"x": (4, 2, 3)}, {}, blocks((2,), NONE), mixes=True),
    ),
    large=Sample("large", {"x": (16, 32, 32, 32)}, {}, blocks((2, 2), (1, 1), NONE), mixes=True),
    refusals=(
        Refusal("axis, 6, but got 4", {"x": (6, 2, 2, 1)}, {}, blocks((2, 2), NONE, NONE)),
        Refusal("crops must leave", {"x": (4, 1, 2, 1)}, {}, blocks((2, 2), (1, 1), NONE)),
    ),
)
