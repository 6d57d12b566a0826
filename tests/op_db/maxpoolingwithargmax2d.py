"""CUSTOM:MaxPoolingWithArgmax2D: reference and samples."""

import struct
from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import INT32, OpInfo, Options, Refusal, Sample, distinct
from op_db.support.pool_indices import SAME, VALID, pool_struct
from op_db.support.windows import places


def max_pool(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    """Looks for the maximum of each window value by value, as MediaPipe's kernel does."""
    x = i["x"]
    padding, right, down, width, height, _ = struct.unpack("<6i", o["custom_options"])
    window = {"stride_h": down, "stride_w": right, "padding": int(padding == VALID)}
    size, taps = places(window, x, (height, width))
    y = np.full((x.shape[0], *size, x.shape[3]), -np.inf, x.dtype)
    indices = np.zeros_like(y)
    for p, q, m, n, h, v in taps:
        greater = x[:, h, v] > y[:, p, q]
        y[:, p, q] = np.where(greater, x[:, h, v], y[:, p, q])
        indices[:, p, q] = np.where(greater, m * width + n + 0.1, indices[:, p, q])
    return {"y": y, "indices": indices}


def pooled(label: str, x: tuple[int, ...], o: Options) -> Sample:
    return Sample(label, {"x": x}, o)


IMAGE = {"x": (1, 4, 4, 2)}
TWO = (2, 2)
INFO = OpInfo(
    "CUSTOM:MaxPoolingWithArgmax2D",
    max_pool,
    samples=(
        pooled("VALID", (2, 4, 6, 2), pool_struct(VALID, TWO, TWO)),
        pooled("SAME, odd", (2, 5, 3, 2), pool_struct(SAME, TWO, TWO)),
        pooled("SAME, 3 × 2", (2, 5, 4, 2), pool_struct(SAME, (3, 2), TWO)),
        pooled("overlapping", (2, 5, 4, 1), pool_struct(VALID, (3, 3), (1, 2))),
        pooled("gaps", (1, 7, 8, 1), pool_struct(VALID, TWO, (3, 3))),
    ),
    large=pooled("large", (9, 64, 64, 16), pool_struct(SAME, (3, 3), TWO)),
    also_large=(pooled("images", (90, 12, 12, 16), pool_struct(VALID, TWO, TWO)),),
    draw=distinct,
    refusals=(
        Refusal("(N, H, W, C)", {"x": (4, 4, 2)}, pool_struct(VALID, TWO, TWO)),
        Refusal("float", {"x": TensorSpec((1, 4, 4, 2), INT32)}, pool_struct(VALID, TWO, TWO)),
        Refusal("must fit", IMAGE, pool_struct(VALID, (5, 5), TWO)),
        Refusal("1 or more", IMAGE, pool_struct(SAME, TWO, (0, 1))),
        Refusal("fewer than 255", IMAGE, pool_struct(SAME, (16, 16), TWO)),
        Refusal("activation", IMAGE, pool_struct(SAME, TWO, TWO, 1)),
        Refusal("24 bytes", IMAGE, {"custom_options": b""}),
    ),
)
