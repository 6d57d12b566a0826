"""RESIZE_NEAREST_NEIGHBOR: reference and samples."""

from collections.abc import Mapping
from math import floor

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import Options
from op_db.support.resize import resize_info, scale


def nearest(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x = i["x"]
    y = np.zeros((x.shape[0], *o["size"], x.shape[3]))

    def source(k: int, axis: int) -> int:
        size = int(x.shape[axis + 1])
        step = scale(o, size, int(o["size"][axis]))
        at = (k + 0.5) * step if o.get("half_pixel_centers") else k * step
        at = floor(at + 0.5) if o.get("align_corners") else floor(at)
        return min(at, size - 1)

    for p, q in np.ndindex(*o["size"]):
        y[:, p, q] = x[:, source(p, 0), source(q, 1)]
    return {"y": y}


INFO = resize_info("RESIZE_NEAREST_NEIGHBOR", nearest, both=True)
