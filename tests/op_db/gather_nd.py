"""GATHER_ND: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.indices import list_of, places


def gather_nd(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, indices = i["x"], i["indices"]
    *lead, axes = indices.shape
    entries = [x[tuple(indices[at])] for at in np.ndindex(*lead)]
    return {"y": np.array(entries).reshape(*lead, *x.shape[axes:])}


X = ("x",)
INFO = OpInfo(
    "GATHER_ND",
    gather_nd,
    samples=(
        Sample("rows", {"x": (5, 3), "indices": places(4, 5)}, constants=X),
        Sample("all", {"x": (2, 3), "indices": np.zeros((4, 0), np.int32)}, constants=X),
        Sample("single values", {"x": (5, 3), "indices": places(4, 5, 3)}, constants=X),
        Sample(
            "inner rows",
            {"x": (4, 4, 2), "indices": places(6, 4, 4).reshape(2, 3, 2)},
            constants=X,
        ),
        Sample("of a batch", {"x": (5, 3), "indices": places(4, 5)}, mixes=True),
    ),
    large=Sample("large", {"x": (64, 64, 32), "indices": places(4096, 64, 64)}, constants=X),
    refusals=(
        Refusal("at most x's axes", {"x": (2, 3), "indices": list_of(4, 3)}),
        Refusal("must be integers", {"x": (2, 3), "indices": (4, 2)}),
    ),
)
