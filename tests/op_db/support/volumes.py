"""Convolutions of volumes, as loops over windows."""

from collections.abc import Iterator

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import Options
from op_db.support.windows import geometry

FILTERS = ("w", "b")
VALID = {"padding": 1}


def steps(d: int, h: int, w: int) -> Options:
    return {"stride_d": d, "stride_h": h, "stride_w": w}


def dilated(d: int, h: int, w: int) -> Options:
    return {"dilation_d_factor": d, "dilation_h_factor": h, "dilation_w_factor": w}


Place = tuple[int, int, int]


def places(
    o: Options, sizes: Place, w: Array
) -> tuple[Place, Iterator[tuple[Place, Place, Place]]]:
    """Output size; and (output, tap, input) for every tap inside the volume."""
    strides = [o.get(f"stride_{a}", 1) for a in "dhw"]
    gaps = [o.get(f"dilation_{a}_factor", 1) for a in "dhw"]
    same = o.get("padding", 0) == 0
    each = [geometry(sizes[k], w.shape[k], strides[k], gaps[k], same) for k in range(3)]
    d, h, v = (out for out, _ in each)

    def all_places() -> Iterator[tuple[Place, Place, Place]]:
        for at in np.ndindex(d, h, v, *w.shape[:3]):
            out, tap = at[:3], at[3:]
            i, j, k = (out[n] * strides[n] + tap[n] * gaps[n] - each[n][1] for n in range(3))
            if all(0 <= p < size for p, size in zip((i, j, k), sizes, strict=True)):
                yield out, tap, (i, j, k)

    return (d, h, v), all_places()
