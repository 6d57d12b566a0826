"""LOGICAL_NOT: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.compare import BITS, bits


def negation(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.array([not v for v in i["x"].flat]).reshape(i["x"].shape)}


INFO = OpInfo(
    "LOGICAL_NOT",
    negation,
    samples=(Sample("both", {"x": BITS}),),
    large=Sample("large", {"x": (1024, 1024)}),
    refusals=(Refusal("must be bool", {"x": (2, 3)}),),
    draw=bits,
)
