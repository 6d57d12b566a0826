"""MATRIX_SET_DIAG: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample


def matrix_set_diag(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    y, diagonal = i["x"].copy(), i["diagonal"]
    for at in np.ndindex(diagonal.shape):
        y[(*at, at[-1])] = diagonal[at]
    return {"y": y}


INTEGERS = np.arange(12, dtype=np.int32)
INFO = OpInfo(
    "MATRIX_SET_DIAG",
    matrix_set_diag,
    samples=(
        Sample("square", {"x": (2, 3, 3), "diagonal": (2, 3)}),
        Sample("wide", {"x": (2, 2, 2, 4), "diagonal": (2, 2, 2)}),
        Sample("high", {"x": (2, 4, 3), "diagonal": (2, 3)}),
        Sample(
            "integers", {"x": INTEGERS.reshape(2, 3, 2), "diagonal": INTEGERS[:4].reshape(2, 2)}
        ),
        Sample("one matrix", {"x": (3, 3), "diagonal": (3,)}, mixes=True, rebatches=False),
    ),
    large=Sample("large", {"x": (64, 64, 65), "diagonal": (64, 64)}),
    refusals=(
        Refusal("that of matrices x", {"x": (2, 3, 3), "diagonal": (2, 2)}),
        Refusal("that of matrices x", {"x": (3,), "diagonal": ()}),
    ),
)
