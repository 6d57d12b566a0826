"""PACK: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import INT32, OpInfo, Options, Refusal, Sample

NUMBERS = np.arange(6, dtype=np.int32).reshape(2, 3)


def pack(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.stack([i[f"xs{k}"] for k in range(len(i))], o.get("axis", 0))}


def parts(count: int, *shape: int) -> dict[str, tuple[int, ...]]:
    return {f"xs{k}": shape for k in range(count)}


INFO = OpInfo(
    "PACK",
    pack,
    samples=(
        Sample("inside", parts(3, 2, 3), {"axis": 1}),
        Sample("at the end", parts(2, 2, 3), {"axis": -1}),
        Sample("one", parts(1, 2, 3), {"axis": 2}),
        Sample("before the batch", parts(2, 2, 3), {"axis": 0}, mixes=True),
        Sample("before the batch, from the end", parts(2, 2, 3), {"axis": -3}, mixes=True),
        Sample("more than ten", parts(12, 2), {"axis": 1}),
        Sample(
            "scalars",
            {"xs0": np.array(1, np.int32), "xs1": np.array(5, np.int32)},
            rebatches=False,
        ),
        Sample("integers", {"xs0": NUMBERS, "xs1": NUMBERS + 1}, {"axis": 1}),
    ),
    large=Sample("large", parts(3, 256, 512), {"axis": 1}),
    refusals=(
        Refusal("alike", {"xs0": (2, 3), "xs1": (2, 4)}),
        Refusal("alike", {"xs0": (2, 3), "xs1": TensorSpec((2, 3), INT32)}),
        Refusal("axis must be within", parts(2, 2, 3), {"axis": 3}),
        Refusal("but got none", {}),
    ),
)
