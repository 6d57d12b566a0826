"""ADD_N: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample


def add_n(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.sum(list(i.values()), axis=0)}


INFO = OpInfo(
    "ADD_N",
    add_n,
    samples=(
        Sample("three", {"xs0": (2, 3), "xs1": (2, 3), "xs2": (2, 3)}),
        Sample("one", {"xs0": (2, 3)}),
    ),
    large=Sample("large", {"xs0": (8, 128, 256), "xs1": (8, 128, 256)}),
    refusals=(Refusal("one shape", {"xs0": (2, 3), "xs1": (2, 1)}),),
)
