"""TOPK_V2: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample, distinct
from op_db.support.indices import ints


def top_k(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, k = i["x"], int(np.ravel(o["k"])[0])
    order = np.argsort(-x, axis=-1, kind="stable")[..., :k]
    return {"values": np.take_along_axis(x, order, -1), "indices": order}


INFO = OpInfo(
    "TOPK_V2",
    top_k,
    samples=(
        Sample("two of four", {"x": (2, 3, 4)}, {}, ints(k=2)),
        Sample("all", {"x": (3, 4)}, {}, ints(k=[4])),
        Sample("few of many", {"x": (2, 50)}, {}, ints(k=7)),
        Sample("a list", {"x": (5,)}, {}, ints(k=2), mixes=True),
    ),
    large=Sample("large", {"x": (64, 4096)}, {}, ints(k=5)),
    refusals=(Refusal("k must be", {"x": (2, 3)}, {}, ints(k=4)),),
    draw=distinct,
)
