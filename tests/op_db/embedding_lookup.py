"""EMBEDDING_LOOKUP: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample, integers


def lookup(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.array([i["table"][k] for k in i["ids"]])}


TABLE = ("table",)
INFO = OpInfo(
    "EMBEDDING_LOOKUP",
    lookup,
    samples=(
        Sample("words", {"ids": np.array([1, 4, 1], np.int32), "table": (5, 3)}, constants=TABLE),
        Sample("cubes", {"ids": np.array([0, 2], np.int32), "table": (3, 2, 2)}, constants=TABLE),
    ),
    large=Sample("large", {"ids": (4096,), "table": (100, 64)}, constants=TABLE),
    refusals=(Refusal("ids must be a list", {"ids": (2,), "table": (5, 3)}),),
    draws={"ids": integers(0, 100)},
)
