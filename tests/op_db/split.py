"""SPLIT: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.splits import LARGE, NUMBERS, statics


def split(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    parts = np.split(i["x"], o["num_splits"], int(np.ravel(o["axis"])[0]))
    return {f"ys{k}": part for k, part in enumerate(parts)}


INFO = OpInfo(
    "SPLIT",
    split,
    samples=(
        Sample("inside", {"x": (2, 6, 2)}, {"num_splits": 3}, statics(axis=1)),
        Sample("last axis", {"x": (2, 4)}, {"num_splits": 2}, statics(axis=[-1])),
        Sample("one", {"x": (2, 4)}, {"num_splits": 1}, statics(axis=1)),
        Sample("samples", {"x": (4, 2)}, {"num_splits": 2}, statics(axis=0), mixes=True),
        Sample("integers", {"x": NUMBERS}, {"num_splits": 2}, statics(axis=1)),
    ),
    large=Sample("large", LARGE, {"num_splits": 2}, statics(axis=2)),
    refusals=(
        Refusal("must divide", {"x": (2, 5)}, {"num_splits": 2}, statics(axis=1)),
        Refusal("must divide", {"x": (2, 5)}, {"num_splits": 0}, statics(axis=1)),
        Refusal("axis must be within", {"x": (2, 5)}, {"num_splits": 1}, statics(axis=2)),
        Refusal("one number", {"x": (2, 5)}, {"num_splits": 1}, statics(axis=[0, 1])),
    ),
)
