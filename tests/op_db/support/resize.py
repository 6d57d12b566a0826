"""Resizing, from the positions that TensorFlow's documentation gives."""

import numpy as np

from odt.kernels.rows.opdef import TensorSpec
from op_db import INT32, OpInfo, Options, Reference, Refusal, Sample

CORNERS = {"align_corners": True}
CENTERS = {"half_pixel_centers": True}


def scale(o: Options, size: int, out: int) -> float:
    if o.get("align_corners") and out > 1:
        return (size - 1) / (out - 1)
    return size / out


def resized(label: str, x: tuple[int, ...], h: int, w: int, o: Options) -> Sample:
    return Sample(label, {"x": x}, o, {"size": np.array([h, w], np.int32)})


IMAGE = {"x": (1, 4, 4, 2)}
SIZE = {"size": np.array([2, 3], np.int32)}


def resize_info(name: str, reference: Reference, both: bool = False) -> OpInfo:
    """The samples of an operator, which takes both alignments or refuses them."""
    aligned = {**CORNERS, **CENTERS}
    return OpInfo(
        name,
        reference,
        samples=(
            resized("larger", (2, 3, 4, 2), 5, 8, {}),
            resized("larger, corners", (2, 3, 4, 2), 5, 8, CORNERS),
            resized("larger, centers", (2, 3, 4, 2), 5, 8, CENTERS),
            resized("smaller", (2, 5, 7, 2), 3, 2, {}),
            resized("smaller, corners", (1, 5, 7, 2), 3, 2, CORNERS),
            resized("smaller, centers", (1, 5, 7, 1), 3, 2, CENTERS),
            resized("to one pixel, corners", (2, 3, 3, 1), 1, 1, CORNERS),
            resized("from one pixel, centers", (1, 1, 1, 3), 3, 2, CENTERS),
            resized("as it is", (1, 3, 2, 2), 3, 2, CENTERS),
            *([resized("larger, both", (2, 3, 4, 2), 5, 8, aligned)] if both else []),
            *([resized("smaller, both", (1, 5, 7, 2), 3, 2, aligned)] if both else []),
        ),
        large=resized("large", (6, 32, 32, 16), 64, 48, CENTERS),
        also_large=(resized("smaller", (40, 33, 32, 8), 17, 12, CORNERS),),
        refusals=(
            Refusal("(N, H, W, C)", {"x": (4, 4, 2)}, {}, SIZE),
            Refusal("float", {"x": TensorSpec((1, 4, 4, 2), INT32)}, {}, SIZE),
            Refusal("(N, H, W, C)", {"x": (1, 0, 4, 2)}, {}, SIZE),
            Refusal("1 or more", IMAGE, {}, {"size": np.array([2, 0], np.int32)}),
            Refusal("(height, width)", IMAGE, {}, {"size": np.array([2], np.int32)}),
            *([] if both else [Refusal("excludes", IMAGE, aligned, SIZE)]),
        ),
    )
