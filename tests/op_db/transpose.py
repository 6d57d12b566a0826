"""TRANSPOSE: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.splits import LARGE, NUMBERS, X, statics


def transpose(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    letters = "abcdefgh"[: i["x"].ndim]
    return {"y": np.einsum(f"{letters}->{''.join(letters[p] for p in o['perm'])}", i["x"])}


INFO = OpInfo(
    "TRANSPOSE",
    transpose,
    samples=(
        Sample("last two", {"x": X}, {}, statics(perm=[0, 2, 1])),
        Sample("all but the batch, around", {"x": (2, 2, 3, 4)}, {}, statics(perm=[0, 3, 1, 2])),
        Sample("nothing", {"x": X}, {}, statics(perm=[0, 1, 2])),
        Sample("only ones", {"x": (2, 1, 3, 1)}, {}, statics(perm=[0, 3, 2, 1])),
        Sample("the batch", {"x": X}, {}, statics(perm=[1, 0, 2]), mixes=True),
        Sample("around", {"x": X}, {}, statics(perm=[2, 0, 1]), mixes=True),
        Sample("integers", {"x": NUMBERS}, {}, statics(perm=[1, 0]), mixes=True),
        *(
            Sample(f"{rows} by {columns}", {"x": x}, {}, statics(perm=[0, 2, 1]))
            for rows, columns in ((16, 16), (17, 32), (33, 18), (3, 40), (40, 3))
            for x in ((1, rows, columns), (2, rows, columns))
        ),
        Sample("ones between", {"x": (2, 5, 1, 4, 1)}, {}, statics(perm=[0, 3, 4, 2, 1])),
        Sample("rows of four", {"x": (2, 5, 3, 4)}, {}, statics(perm=[0, 2, 1, 3])),
        Sample("rows of pairs", {"x": (1, 18, 3, 2, 20)}, {}, statics(perm=[0, 2, 1, 3, 4])),
        Sample("backwards", {"x": (2, 3, 5, 4)}, {}, statics(perm=[0, 3, 2, 1])),
        Sample("five", {"x": (2, 3, 2, 5, 4)}, {}, statics(perm=[0, 4, 2, 1, 3])),
        Sample(
            "eight", {"x": (1, 2, 3, 2, 2, 2, 3, 2)}, {}, statics(perm=[0, 7, 6, 5, 4, 3, 2, 1])
        ),
    ),
    large=Sample("large", LARGE, {}, statics(perm=[0, 2, 1])),
    also_large=(
        Sample("view", {"x": (64, 1, 8192)}, {}, statics(perm=[0, 2, 1])),
        Sample("one matrix", {"x": (1, 723, 601)}, {}, statics(perm=[0, 2, 1])),
        Sample("heads", {"x": (9, 101, 8, 60)}, {}, statics(perm=[0, 2, 1, 3])),
    ),
    refusals=(
        Refusal("each axis of x once", {"x": X}, {}, statics(perm=[0, 1])),
        Refusal("each axis of x once", {"x": X}, {}, statics(perm=[0, 1, 1])),
        Refusal("each axis of x once", {"x": X}, {}, statics(perm=[0, 1, 3])),
    ),
)
