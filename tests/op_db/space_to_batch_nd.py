"""SPACE_TO_BATCH_ND: reference and samples."""

from collections.abc import Mapping
from itertools import product

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.blocks import NONE, blocks


def space_to_batch(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    """tf.space_to_batch_nd: pad; image (block offset) · N + n holds the pixels at that offset."""
    x, block, edges = i["x"], o["block"], o["edges"]
    rest = x.ndim - 1 - len(block)
    x = np.pad(x, [(0, 0), *map(tuple, edges), *[(0, 0)] * rest])
    at = product(*map(range, block))
    images = [
        x[(slice(None), *(slice(k, None, b) for k, b in zip(offset, block, strict=True)))]
        for offset in at
    ]
    return {"y": np.concatenate(images)}


INFO = OpInfo(
    "SPACE_TO_BATCH_ND",
    space_to_batch,
    samples=(
        Sample("padded", {"x": (2, 3, 5, 2)}, {}, blocks((2, 3), (0, 1), (1, 0)), mixes=True),
        Sample("even", {"x": (2, 4, 4, 1)}, {}, blocks((2, 2), NONE, NONE), mixes=True),
        Sample("wide", {"x": (1, 2, 2, 1)}, {}, blocks((4, 4), (1, 1), (2, 0)), mixes=True),
        Sample("one axis", {"x": (2, 4, 3)}, {}, blocks((2,), NONE), mixes=True),
        Sample("pads only", {"x": (2, 3, 3, 1)}, {}, blocks((1, 1), (1, 0), (0, 2))),
    ),
    large=Sample("large", {"x": (4, 62, 64, 32)}, {}, blocks((2, 2), (1, 1), NONE), mixes=True),
    refusals=(
        Refusal("must divide its padded axis", {"x": (1, 3, 3, 1)}, {}, blocks((2, 2), NONE, NONE)),
        Refusal("two for each axis", {"x": (1, 3, 3, 1)}, {}, blocks((2, 2), NONE)),
        Refusal("1 or more", {"x": (1, 3, 3, 1)}, {}, blocks((0, 2), NONE, NONE)),
    ),
)
