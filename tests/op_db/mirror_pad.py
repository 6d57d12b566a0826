"""MIRROR_PAD: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.fill import ints


def mirror(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.pad(i["x"], o["paddings"], ("reflect", "symmetric")[o.get("mode", 0)])}


INFO = OpInfo(
    "MIRROR_PAD",
    mirror,
    samples=(
        Sample("reflect", {"x": (2, 4, 3)}, {}, ints(paddings=[[0, 0], [3, 1], [1, 2]])),
        Sample("symmetric", {"x": (2, 4, 3)}, {"mode": 1}, ints(paddings=[[0, 0], [4, 1], [0, 3]])),
        Sample(
            "rows of channels",
            {"x": (2, 4, 3, 9)},
            {},
            ints(paddings=[[0, 0], [3, 1], [1, 2], [0, 0]]),
        ),
        Sample(
            "rows of images, symmetric",
            {"x": (2, 4, 3, 3)},
            {"mode": 1},
            ints(paddings=[[0, 0], [4, 1], [0, 0], [0, 0]]),
        ),
        Sample("nothing", {"x": (2, 3)}, {}, ints(paddings=[[0, 0], [0, 0]])),
        Sample("the batch", {"x": (3, 2)}, {}, ints(paddings=[[1, 2], [1, 0]]), mixes=True),
    ),
    large=Sample(
        "large", {"x": (8, 62, 62, 16)}, {}, ints(paddings=[[0, 0], [1, 1], [1, 1], [0, 0]])
    ),
    refusals=(
        Refusal("values that can be mirrored", {"x": (3,)}, {}, ints(paddings=[[3, 0]])),
        Refusal("values that can be mirrored", {"x": (3,)}, {"mode": 1}, ints(paddings=[[0, 4]])),
        Refusal("for each axis", {"x": (3, 2)}, {}, ints(paddings=[[0, 1]])),
    ),
)
