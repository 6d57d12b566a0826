"""SCATTER_ND: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.indices import ints, list_of, places


def scatter_nd(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    indices, updates = i["indices"], i["updates"]
    y = np.zeros(tuple(o["shape"]), updates.dtype)
    for at in np.ndindex(*indices.shape[:-1]):
        y[tuple(indices[at])] += updates[at]
    return {"y": y}


INFO = OpInfo(
    "SCATTER_ND",
    scatter_nd,
    samples=(
        Sample(
            "rows, twice the same",
            {"indices": np.array([[1], [3], [1]], np.int32), "updates": (3, 2)},
            {},
            ints(shape=[4, 2]),
            mixes=True,
        ),
        Sample(
            "single values",
            {"indices": places(4, 3, 2), "updates": (4,)},
            {},
            ints(shape=[3, 2]),
            mixes=True,
        ),
    ),
    large=Sample(
        "large",
        {"indices": places(2048, 64, 64), "updates": (2048, 64)},
        {},
        ints(shape=[64, 64, 64]),
        mixes=True,
    ),
    refusals=(
        Refusal(
            "shape must be 0 or more, but got (-4, 2)",
            {"indices": list_of(2, 1), "updates": (2, 2)},
            {},
            ints(shape=[-4, 2]),
        ),
        Refusal(
            "updates must hold",
            {"indices": list_of(2, 1), "updates": (3, 2)},
            {},
            ints(shape=[4, 2]),
        ),
    ),
)
