"""DEPTHWISE_CONV_2D: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal
from op_db.support.windows import BAD_STRIDE, VALID, dilations, filtered, places, strides


def depthwise(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, w = i["x"], i["w"]
    multiplier = w.shape[3] // x.shape[3]
    size, taps = places(o, x, (w.shape[1], w.shape[2]))
    y = np.zeros((x.shape[0], *size, w.shape[3]), x.dtype)
    for p, q, m, n, h, v in taps:
        y[:, p, q] += np.repeat(x[:, h, v], multiplier, axis=1) * w[0, m, n]
    return {"y": y + i["b"] if "b" in i else y}


INFO = OpInfo(
    "DEPTHWISE_CONV_2D",
    depthwise,
    samples=(
        filtered("SAME", (2, 4, 5, 3), (1, 3, 3, 3), {}, 3),
        filtered("VALID, multiplier 2", (2, 4, 5, 2), (1, 3, 2, 4), VALID, 4),
        filtered("one channel to many", (2, 4, 3, 1), (1, 3, 3, 5), {}, 0),
        filtered("stride 2", (2, 5, 4, 2), (1, 3, 3, 2), strides(2, 2), 2),
        filtered("stride 2, 3, multiplier 2", (1, 6, 7, 2), (1, 2, 3, 4), strides(2, 3), 0),
        filtered("stride above kernel", (1, 7, 7, 2), (1, 2, 2, 2), strides(3, 4), 0),
        filtered("dilation", (1, 6, 7, 2), (1, 3, 2, 2), dilations(2, 3), 2),
        filtered(
            "windows before and after the end of a row as far apart as taps",
            (2, 2, 13, 16),
            (1, 1, 3, 16),
            {**VALID, **dilations(1, 3)},
            16,
        ),
        filtered(
            "stride and dilation",
            (1, 7, 6, 1),
            (1, 3, 3, 2),
            {**VALID, **strides(2, 1), **dilations(3, 2)},
            2,
        ),
        filtered(
            "stride and dilation with a common factor",
            (1, 9, 8, 2),
            (1, 3, 2, 2),
            {**strides(2, 4), **dilations(2, 2)},
            0,
        ),
        filtered("kernel above image", (1, 2, 2, 2), (1, 5, 5, 2), {}, 0),
        filtered(
            "wrong multiplier in file", (1, 3, 3, 2), (1, 2, 2, 4), {"depth_multiplier": 1}, 4
        ),
    ),
    large=filtered("large", (5, 64, 64, 16), (1, 3, 3, 16), {}, 16),
    also_large=(
        filtered("multiplier", (9, 32, 32, 16), (1, 3, 3, 32), strides(2, 2), 32),
        filtered("images", (70, 12, 12, 16), (1, 3, 3, 16), VALID, 16),
        filtered("narrow images", (36, 25, 5, 40), (1, 3, 3, 40), {}, 40),
        filtered("5×5", (12, 33, 32, 20), (1, 5, 5, 20), strides(1, 2), 20),
    ),
    refusals=(
        Refusal("C·M", {"x": (1, 4, 4, 2), "w": (1, 3, 3, 3)}),
        Refusal("C·M", {"x": (1, 4, 4, 2), "w": (2, 3, 3, 2)}),
        Refusal("w not empty", {"x": (1, 4, 4, 2), "w": (1, 3, 3, 0)}),
        Refusal("b must be", {"x": (1, 4, 4, 2), "w": (1, 3, 3, 4), "b": (2,)}),
        Refusal("", {"x": (1, 2, 2, 2), "w": (1, 3, 3, 2)}, VALID),
        Refusal("", {"x": (1, 4, 4, 2), "w": (1, 3, 3, 2)}, BAD_STRIDE),
    ),
    loose=4,
)
