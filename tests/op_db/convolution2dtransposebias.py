"""CUSTOM:Convolution2DTransposeBias: reference and samples."""

import struct
from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.windows import FILTERS

SAME, VALID = 1, 2  # TfLitePadding


def transpose_conv_bias(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    """Adds the filters of each input pixel to the output, as MediaPipe's kernel does."""
    x, w, b = i["x"], i["w"], i["b"]
    padding, across, down = struct.unpack("<3i", o["custom_options"])
    sizes, fronts = [], []
    for size, kernel, step in zip(x.shape[1:3], w.shape[1:3], (down, across), strict=True):
        removed = max(0, kernel - (size - 1) % step - 1) if padding == SAME else 0
        sizes.append(step * (size - 1) + kernel - removed)
        fronts.append(removed // 2)
    y = np.zeros((x.shape[0], *sizes, w.shape[0]), x.dtype) + b
    for p, q, m, n in np.ndindex(*x.shape[1:3], *w.shape[1:3]):
        h, v = p * down + m - fronts[0], q * across + n - fronts[1]
        if 0 <= h < sizes[0] and 0 <= v < sizes[1]:
            y[:, h, v] += x[:, p, q] @ w[:, m, n].T
    return {"y": y}


def options(padding: int, down: int, across: int) -> Options:
    return {"custom_options": struct.pack("<3i", padding, across, down)}


def made(label: str, x: tuple[int, ...], w: tuple[int, ...], o: Options) -> Sample:
    return Sample(label, {"x": x, "w": w, "b": w[:1]}, o, {}, FILTERS)


IMAGE = {"x": (1, 4, 4, 2), "w": (3, 3, 3, 2), "b": (3,)}
INFO = OpInfo(
    "CUSTOM:Convolution2DTransposeBias",
    transpose_conv_bias,
    samples=(
        made("SAME", (2, 4, 3, 2), (3, 2, 2, 2), options(SAME, 2, 2)),
        made("SAME, odd", (1, 3, 3, 2), (2, 4, 3, 2), options(SAME, 2, 2)),
        made("SAME, stride 1", (2, 3, 4, 2), (2, 3, 3, 2), options(SAME, 1, 1)),
        made("SAME, gaps", (1, 3, 2, 1), (2, 2, 2, 1), options(SAME, 3, 4)),
        made("VALID", (2, 3, 2, 2), (3, 3, 2, 2), options(VALID, 1, 2)),
        made("VALID, stride 2, 3", (1, 3, 2, 1), (2, 3, 4, 1), options(VALID, 2, 3)),
        made("VALID, gaps", (1, 2, 3, 2), (2, 1, 1, 2), options(VALID, 2, 2)),
    ),
    large=made("rows", (2, 64, 64, 16), (8, 3, 3, 16), options(SAME, 2, 2)),
    also_large=(made("images", (70, 7, 7, 8), (12, 2, 2, 8), options(VALID, 2, 2)),),
    refusals=(
        Refusal("with one C", {**IMAGE, "w": (3, 3, 3, 1)}, options(SAME, 2, 2)),
        Refusal("b must be", {**IMAGE, "b": (2,)}, options(SAME, 2, 2)),
        Refusal("1 or more", IMAGE, options(SAME, 0, 2)),
        Refusal("1 or more, but got 0", {**IMAGE, "x": (1, 0, 4, 2)}, options(SAME, 2, 2)),
        Refusal("padding must be", IMAGE, options(0, 2, 2)),
        Refusal("12 bytes", IMAGE, {"custom_options": b"1234"}),
    ),
    loose=4,
)
