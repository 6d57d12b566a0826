"""ZEROS_LIKE: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Sample
from op_db.support.fill import X


def zeros_like(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": i["x"] * 0}


INFO = OpInfo(
    "ZEROS_LIKE",
    zeros_like,
    samples=(Sample("floats", X), Sample("integers", {"x": np.arange(4, dtype=np.int32)})),
    large=Sample("large", {"x": (8, 256, 256)}),
)
