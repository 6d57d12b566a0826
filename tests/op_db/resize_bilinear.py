"""RESIZE_BILINEAR: reference and samples."""

from collections.abc import Mapping
from math import floor

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import Options
from op_db.support.resize import resize_info, scale


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


INFO = resize_info("RESIZE_BILINEAR", bilinear)
