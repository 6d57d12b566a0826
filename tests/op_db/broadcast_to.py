"""BROADCAST_TO: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.fill import ints


def broadcast_to(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": i["x"] + np.zeros(tuple(o["shape"]), i["x"].dtype)}


INFO = OpInfo(
    "BROADCAST_TO",
    broadcast_to,
    samples=(
        Sample("an axis of 1", {"x": (2, 1, 3)}, {}, ints(shape=[2, 4, 3])),
        Sample("nothing", {"x": (2, 3)}, {}, ints(shape=[2, 3])),
        Sample("a constant", {"x": (3,)}, {}, ints(shape=[2, 3]), rebatches=False),
        Sample("new axes", {"x": (2, 3)}, {}, ints(shape=[4, 2, 3]), rebatches=False),
    ),
    large=Sample("large", {"x": (8, 1, 256)}, {}, ints(shape=[8, 256, 256])),
    refusals=(
        Refusal("broadcastable to shape", {"x": (2, 3)}, {}, ints(shape=[2, 4])),
        Refusal("broadcastable to shape", {"x": (2, 3)}, {}, ints(shape=[3])),
    ),
)
