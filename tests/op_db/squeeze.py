"""SQUEEZE: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample


def squeeze(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x = i["x"]
    axes = tuple(o.get("squeeze_dims", ()))
    return {"y": np.squeeze(x, axes or tuple(k for k in range(1, x.ndim) if x.shape[k] == 1))}


INFO = OpInfo(
    "SQUEEZE",
    squeeze,
    samples=(
        Sample("named", {"x": (2, 1, 3, 1)}, {"squeeze_dims": (1, 3)}),
        Sample("from the end", {"x": (2, 1, 3, 1)}, {"squeeze_dims": (-1,)}),
        Sample("all but the batch", {"x": (1, 1, 3, 1)}),
        Sample("the batch", {"x": (1, 3)}, {"squeeze_dims": (0,)}, rebatches=False),
    ),
    large=Sample("large", {"x": (256, 1, 1, 1024)}, {"squeeze_dims": (1, 2)}),
    refusals=(
        Refusal("axes of length 1", {"x": (2, 1, 3)}, {"squeeze_dims": (2,)}),
        Refusal("axes of length 1", {"x": (2, 1)}, {"squeeze_dims": (2,)}),
    ),
)
