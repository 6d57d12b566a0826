"""STRIDED_SLICE: reference and samples."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample


def walk(size: int, begin: int | None, end: int | None, stride: int) -> Iterator[int]:
    """Positions that tf.strided_slice visits along one axis; None: an open end."""

    def inside(v: int) -> int:
        v = v + size if v < 0 else v
        return min(max(v, 0), size) if stride > 0 else min(max(v, -1), size - 1)

    at = inside(begin) if begin is not None else (0 if stride > 0 else size - 1)
    last = inside(end) if end is not None else (size if stride > 0 else -1)
    while (at < last) if stride > 0 else (at > last):
        yield at
        at += stride


def strided_slice(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    """Entry by entry, as the documentation of tf.strided_slice explains the masks."""
    x, y = i["x"], i["x"]
    begin, end, strides = (list(map(int, o[n])) for n in ("begin", "end", "strides"))

    def has(mask: str, k: int) -> bool:
        return bool(o.get(f"{mask}_mask", 0) >> k & 1)

    new = [has("new_axis", k) and not has("ellipsis", k) for k in range(len(begin))]
    covered = sum(not new[k] and not has("ellipsis", k) for k in range(len(begin)))
    axis, dropped = 0, []
    for k in range(len(begin)):
        if has("ellipsis", k):
            axis += x.ndim - covered
        elif new[k]:
            y = np.expand_dims(y, axis)
            axis += 1
        elif has("shrink_axis", k):
            y = np.take(y, [begin[k] % y.shape[axis]], axis)
            dropped.append(axis)
            axis += 1
        else:
            first = None if has("begin", k) else begin[k]
            last = None if has("end", k) else end[k]
            if o.get("offset") and last is not None:  # end counts from begin
                size = y.shape[axis]
                zero = 0 if strides[k] > 0 else size - 1
                last += zero if first is None else first % size
            y = np.take(y, list(walk(y.shape[axis], first, last, strides[k])), axis)
            axis += 1
    return {"y": np.squeeze(y, tuple(dropped))}


def ends(begin: tuple[int, ...], end: tuple[int, ...], strides: tuple[int, ...]) -> dict[str, Any]:
    names = ("begin", "end", "strides")
    return {n: np.array(v, np.int32) for n, v in zip(names, (begin, end, strides), strict=True)}


X = (2, 3, 4)
INFO = OpInfo(
    "STRIDED_SLICE",
    strided_slice,
    samples=(
        Sample("a part", {"x": X}, {}, ends((0, 1, 0), (2, 3, 4), (1, 1, 2))),
        Sample("the batch cut", {"x": X}, {}, ends((1, 0, 0), (2, 3, 4), (1, 1, 1)), mixes=True),
        Sample("the batch of one", {"x": (1, 4)}, {}, ends((0, 1), (1, 3), (1, 1))),
        Sample(
            "a new axis of a number",
            {"x": ()},
            {"new_axis_mask": 1},
            ends((0,), (1,), (1,)),
            mixes=True,
            rebatches=False,
        ),
        Sample("backwards", {"x": X}, {}, ends((0, 2, -1), (2, 0, -5), (1, -1, -2))),
        Sample("counted from the end", {"x": X}, {}, ends((0, -2), (2, -1), (1, 1))),
        Sample("beyond the ends", {"x": X}, {}, ends((0, -9), (9, 9), (1, 1))),
        Sample("the batch backwards", {"x": X}, {}, ends((1,), (-3,), (-1,)), mixes=True),
        Sample(
            "ends from begin", {"x": X}, {"offset": True}, ends((0, 1, -3), (2, 2, 2), (1,) * 3)
        ),
        Sample(
            "begin open, ends from it",
            {"x": X},
            {"offset": True, "begin_mask": 6},
            ends((0, 1, 2), (2, 2, -3), (1, 1, -1)),
        ),
        Sample(
            "open ends",
            {"x": X},
            {"begin_mask": 3, "end_mask": 5},
            ends((7, 7, 1), (0, 2, 0), (1, 1, 1)),
        ),
        Sample(
            "open ends backwards",
            {"x": X},
            {"begin_mask": 6, "end_mask": 7},
            ends((0, 0, 0), (0, 0, 0), (1, -1, -3)),
        ),
        Sample(
            "one index",
            {"x": X},
            {"shrink_axis_mask": 6, "end_mask": 1},
            ends((0, 1, -1), (0, 2, 0), (1, 1, 1)),
        ),
        Sample(
            "one sample",
            {"x": X},
            {"shrink_axis_mask": 1},
            ends((1,), (2,), (1,)),
            mixes=True,
        ),
        Sample(
            "new axis",
            {"x": X},
            {"new_axis_mask": 2, "begin_mask": 5, "end_mask": 5},
            ends((0, 0, 0), (0, 0, 0), (1, 1, 2)),
        ),
        Sample(
            "new first axis",
            {"x": X},
            {"new_axis_mask": 1},
            ends((0,), (1,), (1,)),
            mixes=True,
        ),
        Sample(
            "ellipsis",
            {"x": X},
            {"ellipsis_mask": 1},
            ends((0, 1), (0, 3), (1, 1)),
        ),
        Sample(
            "ellipsis, new axis, one index",
            {"x": X},
            {"ellipsis_mask": 2, "new_axis_mask": 4, "shrink_axis_mask": 8, "end_mask": 1},
            ends((0, 0, 0, 2), (0, 0, 0, 3), (1, 1, 1, 1)),
        ),
        Sample(
            "an ellipsis of no axis",
            {"x": (2, 3)},
            {"ellipsis_mask": 2, "end_mask": 1},
            ends((0, 0, 1), (0, 0, 2), (1, 1, 1)),
        ),
        Sample("nothing left", {"x": X}, {}, ends((0, 2), (2, 1), (1, 1))),
        Sample(
            "a number of a shape",
            {"x": np.array([7, 8, 9], np.int32)},
            {"shrink_axis_mask": 1},
            ends((1,), (2,), (1,)),
            mixes=True,
        ),
    ),
    large=Sample("large", {"x": (256, 32, 64)}, {}, ends((0, 1, 0), (256, 31, 64), (1, 1, 2))),
    refusals=(
        Refusal("no stride 0", {"x": X}, {}, ends((0,), (1,), (0,))),
        Refusal("as long as each other", {"x": X}, {}, ends((0,), (1, 2), (1,))),
        Refusal("an entry for each axis", {"x": (2,)}, {}, ends((0, 0), (1, 1), (1, 1))),
        Refusal("begin must be within", {"x": X}, {"shrink_axis_mask": 1}, ends((2,), (3,), (1,))),
    ),
)
