"""L2_NORMALIZATION: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Sample
from op_db.support.last_axis import LAST_AXIS


def l2_normalization(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    norm = (i["x"] ** 2).sum(-1, keepdims=True) ** 0.5
    return {"y": i["x"] / np.where(norm > 1e-6, norm, 1e-6)}


INFO = OpInfo(
    "L2_NORMALIZATION",
    l2_normalization,
    samples=(
        Sample("rank 2", {"x": (3, 4)}),
        Sample("rank 4", {"x": (2, 2, 2, 3)}),
        Sample("rank 1", {"x": (4,)}, mixes=True),
    ),
    large=Sample("large", {"x": (512, 1024)}),
    refusals=LAST_AXIS,
)
