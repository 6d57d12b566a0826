"""CONV_2D: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import INT32, OpInfo, Options, Refusal
from op_db.support.windows import BAD_STRIDE, VALID, dilations, filtered, places, strides


def conv(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, w = i["x"], i["w"]
    size, taps = places(o, x, (w.shape[1], w.shape[2]))
    y = np.zeros((x.shape[0], *size, w.shape[0]), x.dtype)
    groups, channels = x.shape[3] // w.shape[3], w.shape[3]
    filters = np.split(w, groups)
    for p, q, m, n, h, v in taps:
        for k, of_group in enumerate(filters):
            units = slice(k * len(of_group), (k + 1) * len(of_group))
            part = x[:, h, v, k * channels : (k + 1) * channels]
            y[:, p, q, units] += part @ of_group[:, m, n].T
    return {"y": y + i["b"] if "b" in i else y}


INFO = OpInfo(
    "CONV_2D",
    conv,
    samples=(
        filtered("1×1", (2, 3, 2, 3), (4, 1, 1, 3), VALID, 4),
        filtered("1×1, stride 2", (2, 4, 3, 2), (3, 1, 1, 2), strides(2, 2), 0),
        filtered("SAME", (2, 4, 5, 2), (3, 3, 3, 2), {}, 3),
        filtered("VALID", (2, 4, 5, 2), (3, 3, 2, 2), VALID, 0),
        filtered("SAME, stride 2", (2, 5, 4, 2), (2, 3, 3, 2), strides(2, 2), 2),
        filtered("VALID, stride 2, 3", (1, 6, 7, 1), (2, 2, 3, 1), {**VALID, **strides(2, 3)}, 2),
        filtered("stride above kernel", (1, 7, 7, 1), (2, 2, 2, 1), strides(3, 4), 0),
        filtered("dilation", (1, 6, 7, 2), (2, 3, 2, 2), dilations(2, 3), 2),
        filtered("dilation, VALID", (2, 6, 5, 1), (2, 3, 3, 1), {**VALID, **dilations(2, 2)}, 0),
        filtered(
            "stride and dilation",
            (1, 7, 6, 1),
            (2, 3, 3, 1),
            {**strides(2, 3), **dilations(3, 2)},
            2,
        ),
        filtered(
            "stride and dilation with a common factor",
            (1, 9, 8, 1),
            (2, 3, 2, 1),
            {**strides(2, 4), **dilations(2, 2)},
            0,
        ),
        filtered("even kernel, SAME", (1, 3, 3, 1), (1, 2, 4, 1), {}, 1),
        filtered("kernel above image, SAME", (1, 2, 2, 1), (1, 5, 5, 1), {}, 0),
        filtered("whole image", (2, 3, 3, 2), (4, 3, 3, 2), VALID, 4),
        filtered("81 taps", (2, 7, 8, 3), (2, 9, 9, 3), {}, 2),
        filtered("groups", (2, 4, 5, 6), (4, 3, 2, 3), {}, 4),
        filtered("groups, 1×1", (2, 3, 2, 4), (6, 1, 1, 2), VALID, 0),
        filtered("groups, stride 2", (2, 5, 4, 6), (6, 3, 3, 2), strides(2, 2), 6),
        filtered("groups of 2, whole vectors", (1, 4, 3, 16), (16, 3, 2, 2), {}, 16),
        filtered("groups of 4, whole vectors", (1, 5, 4, 16), (16, 3, 3, 4), strides(2, 3), 0),
        filtered("groups of 8, whole vectors", (1, 4, 3, 16), (16, 2, 2, 8), dilations(2, 1), 16),
        filtered("few filters", (1, 5, 6, 35), (2, 3, 3, 35), {}, 2),
    ),
    large=filtered("rows", (2, 64, 64, 16), (8, 3, 3, 16), {}, 8),
    also_large=(
        filtered("images", (70, 14, 14, 8), (16, 3, 3, 8), strides(2, 1), 16),
        filtered("1×1", (8, 32, 32, 16), (32, 1, 1, 16), {}, 32),
        filtered("deep", (96, 7, 6, 40), (24, 3, 3, 40), {}, 24),
        filtered("one row", (8, 1, 2100, 5), (20, 1, 7, 5), {}, 20),
        filtered("tiles of 2×2", (4, 33, 31, 32), (48, 3, 3, 32), {}, 48),
        filtered("tiles of 2×2, many channels", (6, 8, 9, 128), (112, 3, 3, 128), {}, 112),
        filtered("groups of 2", (16, 24, 23, 32), (32, 3, 3, 2), {}, 32),
        filtered("groups of 4", (16, 25, 24, 48), (48, 3, 3, 4), strides(2, 2), 48),
        filtered("groups of 8", (16, 14, 15, 64), (64, 1, 5, 8), {}, 64),
        filtered("groups of 16", (16, 14, 15, 64), (64, 3, 3, 16), {}, 64),
        filtered("tiles of 2×2, VALID", (3, 34, 41, 48), (32, 3, 3, 48), VALID, 0),
    ),
    refusals=(
        Refusal("with one C", {"x": (1, 4, 4, 2), "w": (3, 3, 3, 1)}),
        Refusal("w not empty", {"x": (1, 4, 4, 2), "w": (0, 3, 3, 2)}),
        Refusal("1 or more, but got 0", {"x": (1, 0, 4, 2), "w": (3, 3, 3, 2)}),
        Refusal("(N, H, W, C)", {"x": (4, 4, 2), "w": (3, 3, 3, 2)}),
        Refusal("b must be", {"x": (1, 4, 4, 2), "w": (3, 3, 3, 2), "b": (2,)}),
        Refusal("with one C", {"x": TensorSpec((1, 4, 4, 2), INT32), "w": (3, 3, 3, 2)}),
        Refusal("", {"x": (1, 2, 2, 2), "w": (3, 3, 3, 2)}, VALID),
        Refusal("", {"x": (1, 4, 4, 2), "w": (3, 3, 3, 2)}, BAD_STRIDE),
        Refusal("", {"x": (1, 4, 4, 2), "w": (3, 3, 3, 2)}, dilations(1, 0)),
        Refusal("", {"x": (1, 4, 4, 2), "w": (3, 3, 3, 2)}, {"padding": 7}),
        Refusal("phases", {"x": (1, 999, 999, 1), "w": (1, 1, 1, 1)}, strides(999, 999)),
    ),
    loose=4,
)
