"""TILE: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.fill import X, ints


def tile(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.tile(i["x"], tuple(o["multiples"]))}


INFO = OpInfo(
    "TILE",
    tile,
    samples=(
        Sample("two axes", X, {}, ints(multiples=[1, 2, 3])),
        Sample("nothing", X, {}, ints(multiples=[1, 1, 1])),
        Sample("rows", {"x": (2, 3)}, {}, ints(multiples=[3, 1]), mixes=True),
        Sample("a list", {"x": (1,)}, {}, ints(multiples=[4]), mixes=True),
    ),
    large=Sample("large", {"x": (8, 64, 64)}, {}, ints(multiples=[1, 2, 8])),
    refusals=(
        Refusal("for each axis", {"x": (2, 3)}, {}, ints(multiples=[1])),
        Refusal("1 or more", {"x": (2, 3)}, {}, ints(multiples=[1, 0])),
    ),
)
