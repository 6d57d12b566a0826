"""SELECT: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal
from op_db.support.fill import flags, pick


def select(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    c, a = i["c"], i["a"]
    if c.shape != a.shape:
        c = c.reshape(-1, *[1] * (a.ndim - 1))
    return {"y": np.where(c, a, i["b"])}


INFO = OpInfo(
    "SELECT",
    select,
    samples=(
        pick("each value", (2, 3), (2, 3), (2, 3)),
        pick("each row", (4,), (4, 3), (4, 3)),
        pick("one for all", (1,), (2, 3), (2, 3), constants=("c",)),
        pick("a single value", (), (2,), (2,), constants=("c",)),
    ),
    large=pick("large", (8, 128, 256), (8, 128, 256), (8, 128, 256)),
    refusals=(
        Refusal("along their first", {"c": flags(2), "a": (3, 2), "b": (3, 2)}),
        Refusal("along their first", {"c": flags(3), "a": (3, 2), "b": (3, 1)}),
        Refusal("must be bool", {"c": (3,), "a": (3,), "b": (3,)}),
    ),
)
