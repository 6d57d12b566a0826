"""MATRIX_DIAG: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample


def matrix_diag(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x = i["x"]
    y = np.zeros((*x.shape, x.shape[-1]), x.dtype)
    for at in np.ndindex(x.shape):
        y[(*at, at[-1])] = x[at]
    return {"y": y}


INFO = OpInfo(
    "MATRIX_DIAG",
    matrix_diag,
    samples=(
        Sample("matrices", {"x": (3, 2, 4)}),
        Sample("a matrix for each sample", {"x": (2, 3)}),
        Sample("integers", {"x": np.arange(6, dtype=np.int32).reshape(2, 3)}),
        Sample("nothing", {"x": (2, 0)}),
        Sample("one matrix", {"x": (4,)}, mixes=True),
    ),
    large=Sample("large", {"x": (64, 8, 64)}),
    refusals=(Refusal("an axis or more", {"x": ()}),),
)
