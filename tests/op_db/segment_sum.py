"""SEGMENT_SUM: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.indices import ints


def segment_sum(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, segments = i["x"], o["segments"]
    y = np.zeros((max(segments, default=-1) + 1, *x.shape[1:]), x.dtype)
    for entry, k in zip(x, segments, strict=True):
        y[k] += entry
    return {"y": y}


def summed(label: str, x: tuple[int, ...] | Array, segments: list[int]) -> Sample:
    return Sample(label, {"x": x}, {}, ints(segments=segments), mixes=True, rebatches=False)


INFO = OpInfo(
    "SEGMENT_SUM",
    segment_sum,
    samples=(
        summed("rows", (5, 2, 3), [0, 0, 1, 1, 1]),
        summed("a vector", (5,), [0, 0, 1, 3, 3]),
        summed("numbers left out", (3, 2), [1, 4, 4]),
        summed("integers", np.arange(8, dtype=np.int32).reshape(4, 2), [0, 1, 1, 2]),
    ),
    large=summed("large", (64, 64, 64), [k // 5 for k in range(64)]),
    refusals=(
        Refusal("number the 2 entries", {"x": (3, 2)}, {}, ints(segments=[0, 1])),
        Refusal("ascending", {"x": (3, 2)}, {}, ints(segments=[0, 2, 1])),
        Refusal("ascending", {"x": (2, 2)}, {}, ints(segments=[-1, 0])),
    ),
)
