"""CUSTOM:MaxUnpooling2D: reference and samples."""

import struct
from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import INT32, OpInfo, Options, Refusal, Sample
from op_db.support.pool_indices import SAME, VALID, pool_struct


def max_unpool(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    """Puts value by value at its place, as MediaPipe's kernel does."""
    x, indices = i["x"], i["indices"]
    _, _, _, width, height, _ = struct.unpack("<6i", o["custom_options"])
    n, h, w, c = x.shape
    y = np.zeros((n, h * height, w * width, c), x.dtype)
    for at in np.ndindex(x.shape):
        image, p, q, channel = at
        down, right = divmod(int(indices[at]), width)
        if down < height:  # beyond its window there is no place
            y[image, p * height + down, q * width + right, channel] = x[at]
    return {"y": y}


def unpooled(label: str, shape: tuple[int, ...], o: Options) -> Sample:
    return Sample(label, {"x": shape, "indices": shape}, o)


IMAGE = {"x": (1, 4, 4, 2), "indices": (1, 4, 4, 2)}
TWO = (2, 2)
INFO = OpInfo(
    "CUSTOM:MaxUnpooling2D",
    max_unpool,
    samples=(
        unpooled("VALID", (2, 2, 3, 2), pool_struct(VALID, TWO, TWO)),
        unpooled("SAME", (2, 3, 2, 2), pool_struct(SAME, TWO, TWO)),
        unpooled("2 × 3", (2, 2, 3, 1), pool_struct(SAME, (2, 3), (2, 3))),
        unpooled("positions beyond the window", (1, 3, 2, 2), pool_struct(SAME, (1, 2), (1, 2))),
    ),
    large=unpooled("large", (9, 32, 32, 16), pool_struct(SAME, TWO, TWO)),
    also_large=(unpooled("images", (90, 6, 6, 16), pool_struct(VALID, (1, 3), (1, 3))),),
    draws={"indices": lambda rng, shape: rng.integers(0, 4, shape) + 0.1},
    refusals=(
        Refusal("(N, H, W, C)", {**IMAGE, "x": (4, 4, 2)}, pool_struct(VALID, TWO, TWO)),
        Refusal(
            "float type",
            {**IMAGE, "indices": TensorSpec((1, 4, 4, 2), INT32)},
            pool_struct(VALID, TWO, TWO),
        ),
        Refusal("size of the window", IMAGE, pool_struct(SAME, (3, 3), TWO)),
        Refusal("window, 1 or more", IMAGE, pool_struct(SAME, (0, 2), (0, 2))),
        Refusal(
            "1 or more, but got 0",
            dict.fromkeys(IMAGE, (1, 0, 4, 2)),
            pool_struct(SAME, TWO, TWO),
        ),
        Refusal("fewer than 255", IMAGE, pool_struct(SAME, (16, 16), (16, 16))),
    ),
)
