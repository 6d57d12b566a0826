"""SLICE: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.splits import LARGE, NUMBERS, X, statics


def cut(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    y = i["x"]
    for axis, (begin, size) in enumerate(zip(o["begin"], o["size"], strict=True)):
        end = y.shape[axis] if size == -1 else begin + size
        y = np.take(y, range(begin, end), axis)
    return {"y": y}


INFO = OpInfo(
    "SLICE",
    cut,
    samples=(
        Sample("a part", {"x": (1, 3, 4)}, {}, statics(begin=[0, 1, 0], size=[1, 2, 3])),
        Sample("to the end", {"x": X}, {}, statics(begin=[0, 1, 2], size=[-1, -1, -1])),
        Sample("nothing", {"x": X}, {}, statics(begin=[0, 3, 0], size=[2, 0, 4])),
        Sample("samples", {"x": X}, {}, statics(begin=[1, 0, 0], size=[1, 3, 4]), mixes=True),
        Sample("the first", {"x": X}, {}, statics(begin=[0, 0, 0], size=[1, 3, 4]), mixes=True),
        Sample("integers", {"x": NUMBERS}, {}, statics(begin=[0, 2], size=[-1, 1])),
    ),
    large=Sample("large", LARGE, {}, statics(begin=[0, 1, 5], size=[64, 60, 99])),
    refusals=(
        Refusal("inside x", {"x": (2, 3)}, {}, statics(begin=[0, 2], size=[2, 2])),
        Refusal("inside x", {"x": (2, 3)}, {}, statics(begin=[0, -1], size=[2, 1])),
        Refusal("inside x", {"x": (2, 3)}, {}, statics(begin=[0, 4], size=[2, -1])),
        Refusal("inside x", {"x": (2, 3)}, {}, statics(begin=[0, 2], size=[2, -2])),
        Refusal("inside x", {"x": (2, 3)}, {}, statics(begin=[0], size=[2])),
    ),
)
