"""FILL: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.fill import ints


def fill(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.ones(tuple(o["dims"]), i["value"].dtype) * i["value"].reshape(())}


INFO = OpInfo(
    "FILL",
    fill,
    samples=(
        Sample("a number", {"value": ()}, {}, ints(dims=[2, 3]), ("value",), rebatches=False),
        Sample("a list", {"value": (1,)}, {}, ints(dims=[4]), ("value",), rebatches=False),
    ),
    large=Sample("large", {"value": ()}, {}, ints(dims=[512, 512]), ("value",)),
    refusals=(Refusal("one number", {"value": (2,)}, {}, ints(dims=[2])),),
)
