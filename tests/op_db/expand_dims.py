"""EXPAND_DIMS: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.pad import at


def expand_dims(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.expand_dims(i["x"], int(np.ravel(o["axis"])[0]))}


INFO = OpInfo(
    "EXPAND_DIMS",
    expand_dims,
    samples=(
        Sample("inside", {"x": (2, 3)}, {}, at(1)),
        Sample("at the end", {"x": (2, 3)}, {}, at(-1)),
        Sample("an array of one", {"x": (2, 3)}, {}, {"axis": np.array([2], np.int32)}),
        Sample("before the batch", {"x": (2, 3)}, {}, at(0), mixes=True),
        Sample("before the batch, from the end", {"x": (2, 3)}, {}, at(-3), mixes=True),
    ),
    large=Sample("large", {"x": (256, 1024)}, {}, at(1)),
    refusals=(
        Refusal("axis must be within", {"x": (2, 3)}, {}, at(3)),
        Refusal("axis must be within", {"x": (2, 3)}, {}, at(-4)),
        Refusal("one number", {"x": (2,)}, {}, {"axis": np.zeros(2, np.int32)}),
    ),
)
