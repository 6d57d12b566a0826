"""L2_POOL_2D: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import INT32, OpInfo, Options, Refusal
from op_db.support.windows import BAD_STRIDE, VALID, places, pooled, strides, window


def l2_pool(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x = i["x"]
    size, taps = places(o, x, (o["filter_height"], o["filter_width"]))
    total, count = np.zeros((x.shape[0], *size, x.shape[3])), np.zeros((*size, 1))
    for p, q, _, _, h, v in taps:
        total[:, p, q] += x[:, h, v] ** 2
        count[p, q] += 1
    return {"y": np.sqrt(total / count)}


INFO = OpInfo(
    "L2_POOL_2D",
    l2_pool,
    samples=(
        pooled("VALID", (2, 4, 6, 2), {**window(2, 2), **strides(2, 2), **VALID}),
        pooled("SAME", (2, 5, 4, 2), {**window(3, 2), **strides(2, 2)}),
        pooled("overlapping, SAME", (1, 4, 3, 2), window(3, 3)),
        pooled("gaps", (1, 7, 8, 1), {**window(2, 2), **strides(3, 3), **VALID}),
        pooled("whole image", (2, 3, 4, 2), {**window(3, 4), **VALID}),
    ),
    large=pooled("large", (9, 64, 64, 16), {**window(3, 3), **strides(2, 2)}),
    also_large=(pooled("images", (90, 12, 12, 16), {**window(2, 2), **VALID}),),
    refusals=(
        Refusal("(N, H, W, C)", {"x": (4, 4, 2)}, window(2, 2)),
        Refusal("float", {"x": TensorSpec((1, 4, 4, 2), INT32)}, window(2, 2)),
        Refusal("must fit", {"x": (1, 2, 2, 2)}, {**window(3, 3), **VALID}),
        Refusal("1 or more", {"x": (1, 4, 4, 2)}, {**window(2, 2), **BAD_STRIDE}),
    ),
    loose=4,
)
