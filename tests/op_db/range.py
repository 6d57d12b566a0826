"""RANGE: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.fill import ints


def arange(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    found, at, last, step = [], *(o[n].item() for n in ("start", "limit", "delta"))
    while (at < last) if step > 0 else (at > last):
        found.append(at)
        at += step
    return {"y": np.array(found, o["start"].dtype)}


HALVES = {"start": 0.5, "limit": 2.0, "delta": [0.25]}
INFO = OpInfo(
    "RANGE",
    arange,
    samples=(
        Sample("up", {}, {}, ints(start=2, limit=9, delta=3), rebatches=False),
        Sample("down", {}, {}, ints(start=5, limit=0, delta=-2), rebatches=False),
        Sample("none", {}, {}, ints(start=5, limit=0, delta=2), rebatches=False),
        Sample(
            "floats",
            {},
            {},
            {n: np.array(v, np.float32) for n, v in HALVES.items()},
            rebatches=False,
        ),
    ),
    large=Sample("large", {}, {}, ints(start=0, limit=300000, delta=1)),
    refusals=(Refusal("delta not 0", {}, {}, ints(start=0, limit=3, delta=0)),),
)
