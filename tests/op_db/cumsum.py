"""CUMSUM: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.indices import ints


def cumsum(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, (axis,) = i["x"], np.ravel(o["axis"])
    y = np.zeros_like(x)
    length = x.shape[axis]
    for k in range(length):
        before = range(k + 1, length) if o.get("reverse") else range(k)
        chosen = [*before] if o.get("exclusive") else [*before, k]
        to = [slice(None)] * x.ndim
        to[axis] = slice(k, k + 1)
        y[tuple(to)] = np.take(x, chosen, axis).sum(axis, x.dtype, keepdims=True)
    return {"y": y}


BOTH = {"exclusive": True, "reverse": True}
NUMBERS = np.arange(12, dtype=np.int32).reshape(3, 4)
INFO = OpInfo(
    "CUMSUM",
    cumsum,
    samples=(
        Sample("last", {"x": (2, 3, 4)}, {}, ints(axis=-1)),
        Sample("exclusive", {"x": (2, 3, 4)}, {"exclusive": True}, ints(axis=1)),
        Sample("reverse", {"x": (2, 5)}, {"reverse": True}, ints(axis=[1])),
        Sample("both", {"x": (2, 3, 4)}, BOTH, ints(axis=2)),
        Sample("nothing", {"x": (2, 0, 4)}, BOTH, ints(axis=1)),
        Sample("integers", {"x": NUMBERS}, {"reverse": True}, ints(axis=1)),
        Sample("the batch", {"x": (3, 2)}, {}, ints(axis=0), mixes=True),
    ),
    large=Sample("large", {"x": (8, 256, 256)}, {}, ints(axis=2)),
    also_large=(Sample("large, inner", {"x": (8, 256, 256)}, BOTH, ints(axis=1)),),
    refusals=(Refusal("one of x's", {"x": (2, 3)}, {}, ints(axis=2)),),
)
