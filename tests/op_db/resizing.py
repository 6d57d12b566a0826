"""Resizing, pixel by pixel from the positions that TensorFlow's documentation gives."""

from collections.abc import Mapping
from math import floor

import numpy as np

from odt.kernels.opdef import Array, TensorSpec
from op_db import OpInfo, Options, Refusal, Sample

INT32 = np.dtype(np.int32)
CORNERS = {"align_corners": True}
CENTRES = {"half_pixel_centers": True}


def scale(o: Options, size: int, out: int) -> float:
    if o.get("align_corners") and out > 1:
        return (size - 1) / (out - 1)
    return size / out


def nearest(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x = i["x"]
    y = np.zeros((x.shape[0], *o["size"], x.shape[3]))

    def source(k: int, axis: int) -> int:
        size = int(x.shape[axis + 1])
        step = scale(o, size, int(o["size"][axis]))
        if o.get("align_corners"):
            at = floor(k * step + 0.5)
        else:
            at = floor((k + 0.5) * step if o.get("half_pixel_centers") else k * step)
        return min(at, size - 1)

    for p, q in np.ndindex(*o["size"]):
        y[:, p, q] = x[:, source(p, 0), source(q, 1)]
    return {"y": y}


def bilinear(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x = i["x"]
    y = np.zeros((x.shape[0], *o["size"], x.shape[3]))

    def place(k: int, axis: int) -> tuple[int, int, float]:
        """The inputs before and after, and how far the output is past the first."""
        size = int(x.shape[axis + 1])
        step = scale(o, size, int(o["size"][axis]))
        at = (k + 0.5) * step - 0.5 if o.get("half_pixel_centers") else k * step
        low = floor(at)
        return max(low, 0), min(low + 1, size - 1), at - low

    for p, q in np.ndindex(*o["size"]):
        top, bottom, down = place(p, 0)
        left, right, along = place(q, 1)
        upper = x[:, top, left] * (1 - along) + x[:, top, right] * along
        lower = x[:, bottom, left] * (1 - along) + x[:, bottom, right] * along
        y[:, p, q] = upper * (1 - down) + lower * down
    return {"y": y}


def resized(label: str, x: tuple[int, ...], h: int, w: int, o: Options) -> Sample:
    return Sample(label, {"x": x}, o, {"size": np.array([h, w], np.int32)})


IMAGE = {"x": (1, 4, 4, 2)}
SIZE = {"size": np.array([2, 3], np.int32)}
ROWS: tuple[OpInfo, ...] = tuple(
    OpInfo(
        name,
        reference,
        samples=(
            resized("larger", (2, 3, 4, 2), 5, 8, {}),
            resized("larger, corners", (2, 3, 4, 2), 5, 8, CORNERS),
            resized("larger, centres", (2, 3, 4, 2), 5, 8, CENTRES),
            resized("smaller", (2, 5, 7, 2), 3, 2, {}),
            resized("smaller, corners", (1, 5, 7, 2), 3, 2, CORNERS),
            resized("smaller, centres", (1, 5, 7, 1), 3, 2, CENTRES),
            resized("to one pixel, corners", (2, 3, 3, 1), 1, 1, CORNERS),
            resized("from one pixel, centres", (1, 1, 1, 3), 3, 2, CENTRES),
            resized("as it is", (1, 3, 2, 2), 3, 2, CENTRES),
        ),
        large=resized("large", (6, 32, 32, 16), 64, 48, CENTRES),
        also_large=(resized("smaller", (40, 33, 32, 8), 17, 12, CORNERS),),
        refusals=(
            Refusal("(N, H, W, C)", {"x": (4, 4, 2)}, {}, SIZE),
            Refusal("float", {"x": TensorSpec((1, 4, 4, 2), INT32)}, {}, SIZE),
            Refusal("(N, H, W, C)", {"x": (1, 0, 4, 2)}, {}, SIZE),
            Refusal("1 or more", IMAGE, {}, {"size": np.array([2, 0], np.int32)}),
            Refusal("(height, width)", IMAGE, {}, {"size": np.array([2], np.int32)}),
            Refusal("excludes", IMAGE, {**CORNERS, **CENTRES}, SIZE),
        ),
    )
    for name, reference in (("RESIZE_BILINEAR", bilinear), ("RESIZE_NEAREST_NEIGHBOR", nearest))
)
