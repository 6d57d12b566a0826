"""UNPACK: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.splits import NUMBERS, X


def unpack(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {f"ys{k}": np.take(i["x"], k, o.get("axis", 0)) for k in range(o["num"])}


INFO = OpInfo(
    "UNPACK",
    unpack,
    samples=(
        Sample("inside", {"x": X}, {"axis": 1, "num": 3}),
        Sample("last axis", {"x": X}, {"axis": -1, "num": 4}),
        Sample("samples", {"x": (2, 3)}, {"num": 2}, rebatches=False),
        Sample("more than ten", {"x": (2, 12)}, {"axis": 1, "num": 12}),
        Sample("integers", {"x": NUMBERS}, {"axis": 1, "num": 4}),
    ),
    large=Sample("large", {"x": (256, 4, 512)}, {"axis": 1, "num": 4}),
    refusals=(
        Refusal("num must be", {"x": X}, {"axis": 1, "num": 2}),
        Refusal("axis must be within", {"x": X}, {"axis": 3, "num": 2}),
    ),
)
