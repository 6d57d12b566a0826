"""BROADCAST_ARGS: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.fill import ints


def broadcast_args(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    a, b = (list(map(int, i[n])) for n in "ab")
    rank = max(len(a), len(b))
    a, b = ([1] * (rank - len(v)) + v for v in (a, b))
    return {"y": np.array([m if n == 1 else n for m, n in zip(a, b, strict=True)])}


INFO = OpInfo(
    "BROADCAST_ARGS",
    broadcast_args,
    samples=(
        Sample("lists", ints(a=[2, 1, 3], b=[4, 1]), mixes=True),
        Sample("equal", ints(a=[2, 3], b=[2, 3]), mixes=True),
    ),
    large=Sample("large", ints(a=[1, 7] * 80000, b=[3, 1] * 40000), mixes=True),
    refusals=(Refusal("lists of integers", {"a": (2,), "b": (2,)}),),
)
