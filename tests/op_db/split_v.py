"""SPLIT_V: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.splits import LARGE, NUMBERS, statics


def split_v(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, axis, at = i["x"], int(o["axis"]), 0
    found = {}
    left = x.shape[axis] - sum(m for m in o["sizes"] if m >= 0)
    for k, size in enumerate(o["sizes"]):
        n = left if size < 0 else size
        found[f"ys{k}"] = np.take(x, range(at, at + n), axis)
        at += n
    return found


INFO = OpInfo(
    "SPLIT_V",
    split_v,
    samples=(
        Sample("inside", {"x": (2, 6, 2)}, {}, statics(sizes=[1, 3, 2], axis=1)),
        Sample("what is left", {"x": (2, 6)}, {}, statics(sizes=[1, -1, 2], axis=-1)),
        Sample("nothing", {"x": (2, 3)}, {}, statics(sizes=[3, 0], axis=1)),
        Sample("samples", {"x": (3, 2)}, {}, statics(sizes=[1, 2], axis=0), rebatches=False),
        Sample("integers", {"x": NUMBERS}, {}, statics(sizes=[3, 1], axis=1)),
    ),
    large=Sample("large", LARGE, {}, statics(sizes=[28, 100], axis=2)),
    refusals=(
        Refusal("must make up", {"x": (2, 5)}, {}, statics(sizes=[2, 2], axis=1)),
        Refusal("must make up", {"x": (2, 5)}, {}, statics(sizes=[-1, -1], axis=1)),
        Refusal("must make up", {"x": (2, 5)}, {}, statics(sizes=[6, -1], axis=1)),
        Refusal("must make up", {"x": (2, 5)}, {}, statics(sizes=[7, -2], axis=1)),
        Refusal("axis must be within", {"x": (2, 5)}, {}, statics(sizes=[5], axis=2)),
        Refusal("one number", {"x": (2, 5)}, {}, statics(sizes=[5], axis=[0, 1])),
    ),
)
