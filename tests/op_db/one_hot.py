"""ONE_HOT: reference and samples."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.indices import ints, list_of


def one_hot(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    indices, depth = i["indices"], int(np.ravel(o["depth"])[0])
    hit = indices[..., None] == np.arange(depth)
    y = np.where(hit, i["on"].reshape(()), i["off"].reshape(()))
    return {"y": np.moveaxis(y, -1, o.get("axis", -1))}


def hot(label: str, indices: Any, depth: int, **more: Any) -> Sample:
    inputs: dict[str, Any] = {"indices": np.array(indices, np.int32), "on": (), "off": ()}
    return Sample(label, inputs, statics=ints(depth=depth), constants=("on", "off"), **more)


INFO = OpInfo(
    "ONE_HOT",
    one_hot,
    samples=(
        hot("classes", [0, 2, 1, 2], 3),
        hot("outside", [[0, -1], [3, 5]], 3),
        hot("before the last axis", [[0, 1, 1], [1, 0, 2]], 3, options={"axis": 1}),
        hot("first axis", [0, 1], 2, options={"axis": 0}, mixes=True),
    ),
    large=hot("large", np.arange(4096) % 64, 64),
    refusals=(
        Refusal("must be integers", {"indices": (2,), "on": (), "off": ()}, {}, ints(depth=2)),
        Refusal(
            "axis must be",
            {"indices": list_of(2), "on": (), "off": ()},
            {"axis": 3},
            ints(depth=2),
        ),
        Refusal("depth must be", {"indices": list_of(2), "on": (), "off": ()}, {}, ints(depth=-1)),
    ),
)
