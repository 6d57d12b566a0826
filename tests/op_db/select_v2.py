"""SELECT_V2: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal
from op_db.support.fill import flags, pick


def select_v2(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.where(i["c"], i["a"], i["b"])}


INFO = OpInfo(
    "SELECT_V2",
    select_v2,
    samples=(
        pick("each value", (2, 3), (2, 3), (2, 3)),
        pick("stretched", (2, 1, 3), (2, 4, 1), (2, 1, 1)),
        pick("a constant", (2, 3), (2, 3), (), constants=("b",)),
        pick("a mask for all", (4, 4), (2, 4, 4), (1,), constants=("c", "b")),
        pick("rows meet", (1,), (2, 3), (2, 1), mixes=True),
    ),
    large=pick("large", (8, 128, 1), (8, 128, 256), (8, 1, 256)),
    refusals=(
        Refusal("match from the last", {"c": flags(2), "a": (3,), "b": (3,)}),
        Refusal("must be bool", {"c": (3,), "a": (3,), "b": (3,)}),
    ),
)
